package pybind

import "fmt"

// BuildInfo tells what this binary is, as one line.
func BuildInfo() (text string, err error) {
	return fmt.Sprintf("gpuconf"), nil
}

// Add is a probe.
func Add(a int64, b string, c bool, d float64) (text int64, err error) {
	return 1, nil
}
