// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// Notice is a message for the user that is not an error. The caller logs it.
type Notice struct {
	Level string // "info", "warning" or "error"
	Text  string // the message
}

func info(format string, args ...any) Notice { return Notice{"info", fmt.Sprintf(format, args...)} }
func warning(format string, args ...any) Notice {
	return Notice{"warning", fmt.Sprintf(format, args...)}
}
func failure(format string, args ...any) Notice { return Notice{"error", fmt.Sprintf(format, args...)} }
