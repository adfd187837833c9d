// SPDX-License-Identifier: Apache-2.0

package human

import (
	"fmt"
	"math"
)

// Bytes formats a number of bytes: 1023B, 1.0KiB, 1.50MiB, 80.00GiB. As in TensorFlow, each step to the next unit
// truncates instead of rounding.
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

// Exact formats a number of bytes together with the exact count: "9.00MiB (9437184 bytes)", "512 bytes".
func Exact(n uint64) string {
	if n < 1024 || n > math.MaxInt64 {
		return Count(n, "byte")
	}
	return fmt.Sprintf("%s (%d bytes)", Bytes(n), n)
}
