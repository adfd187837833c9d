// SPDX-License-Identifier: Apache-2.0

package human

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
)

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
