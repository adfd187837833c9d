package bfc

import (
	"fmt"
	"math"
)

// HumanBytes writes a number of bytes for people, as TensorFlow does: 1023B, 1.0KiB, 1.50MiB, 80.00GiB.
func HumanBytes(bytes int64) string {
	sign, n := "", uint64(bytes)
	if bytes < 0 {
		sign, n = "-", -n
	}
	if n < 1024 {
		return fmt.Sprintf("%s%dB", sign, n)
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
	return fmt.Sprintf("%s%.*f%ciB", sign, digits, float64(n)/1024, units[unit])
}

// human writes a size exactly and for people.
func human(bytes uint64) string {
	return fmt.Sprintf("%d (%s)", bytes, HumanBytes(int64(min(bytes, math.MaxInt64))))
}
