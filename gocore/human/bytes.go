package human

import "fmt"

// Bytes writes a number of bytes: 1023B, 1.0KiB, 1.50MiB, 80.00GiB. What is over is cut off, not rounded, at each step
// to the next unit, as TensorFlow does it.
func Bytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	const units = "KMGTPE"
	unit := 0
	for ; n >= 1<<20; n /= 1024 {
		unit++
	}
	digits := 2
	if unit == 0 {
		digits = 1
	}
	return fmt.Sprintf("%.*f%ciB", digits, float64(n)/1024, units[unit])
}
