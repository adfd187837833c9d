// SPDX-License-Identifier: Apache-2.0

// Package human formats numbers for people, in TensorFlow's format, because messages of both appear side by side.
package human

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
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

// Count formats a count with its noun: "1 block", "2 blocks".
func Count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

var (
	size  = regexp.MustCompile(`^(\d*)(?:\.(\d*))?\s*([A-Za-z]*)$`)
	units = map[string]int64{
		"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30,
		"TIB": 1 << 40,
	}
)

// ParseSize returns the bytes of a size such as "1073741824", "500MB" or "1.5GiB", by the grammar of
// python/gpuconf/_core/size_text.py, without its percentages. Its errors are the ends of sentences, as those there.
func ParseSize(text string) (uint64, error) {
	parts := size.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil || parts[1]+parts[2] == "" || units[strings.ToUpper(parts[3])] == 0 {
		return 0, errors.New("is not a size: write bytes, '500MB', '6GiB'")
	}
	fraction, scale := parts[2], big.NewInt(1)
	scale.Exp(big.NewInt(10), big.NewInt(int64(len(fraction))), nil)
	number, _ := new(big.Int).SetString("0"+parts[1]+fraction, 10)
	unit := units[strings.ToUpper(parts[3])]
	if unit == 1 && strings.Trim(fraction, "0") != "" {
		return 0, errors.New("is not a whole number of bytes: write a unit, such as '6GiB'")
	}
	number.Mul(number, big.NewInt(unit)).Quo(number, scale)
	if !number.IsInt64() {
		return 0, errors.New("is too large: at most 2**63 - 1 bytes")
	}
	return number.Uint64(), nil
}
