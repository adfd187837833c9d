package config

import "fmt"

// Notice is something to tell the user that is no error. Nothing here prints.
type Notice struct {
	Level string // "info", "warning" or "error"
	Text  string
}

func info(format string, args ...any) Notice { return Notice{"info", fmt.Sprintf(format, args...)} }
func warning(format string, args ...any) Notice {
	return Notice{"warning", fmt.Sprintf(format, args...)}
}
func failure(format string, args ...any) Notice { return Notice{"error", fmt.Sprintf(format, args...)} }
