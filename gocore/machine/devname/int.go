// SPDX-License-Identifier: Apache-2.0

package devname

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpuconf/gocore/base/status"
)

// Int is a Python integer, which is unbounded, in decimal: no plus sign, no leading zero, and a minus sign only before
// a number other than zero. Equal numbers are equal strings.
type Int string

// maxIntDigits is Python's limit for parsing an integer, which guards its quadratic cost against hostile input.
const maxIntDigits = 4300

// ParseInt parses text as Python's int() does. It allows surrounding white space, a sign, single underscores between
// digits, and the decimal digits of every script. The error text is Python's.
func ParseInt(text string) (Int, error) {
	digits := asciiDigits(text)
	negative := strings.HasPrefix(digits, "-")
	if negative || strings.HasPrefix(digits, "+") {
		digits = digits[1:]
	}
	digits, ok := joinUnderscores(digits)
	if !ok {
		return "", status.Errorf(status.InvalidArgument,
			"invalid literal for int() with base 10: %s", firstRunes(pythonRepr(text), 200))
	}
	if len(digits) > maxIntDigits {
		return "", status.Errorf(status.InvalidArgument, "Exceeds the limit (%d digits) for integer string "+
			"conversion: value has %d digits; use sys.set_int_max_str_digits() to increase the limit",
			maxIntDigits, len(digits))
	}
	digits = strings.TrimLeft(digits, "0")
	switch {
	case digits == "":
		return "0", nil
	case negative:
		return Int("-" + digits), nil
	}
	return Int(digits), nil
}

// parseOptionalInt is ParseInt for an optional part.
func parseOptionalInt(text *string) (*Int, error) {
	if text == nil {
		return nil, nil
	}
	number, err := ParseInt(*text)
	if err != nil {
		return nil, err
	}
	return &number, nil
}

// asciiDigits trims white space and converts every decimal digit to ASCII. Python does not convert text that is all
// ASCII, so the separators 0x1c to 0x1f are white space only in other text.
func asciiDigits(text string) string {
	if isASCII(text) {
		return strings.Trim(text, "\t\n\v\f\r ")
	}
	text = strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f)
	})
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf || !unicode.Is(unicode.Nd, r) {
			return r
		}
		// The ten digits of a script are consecutive, and the table's ranges begin at a zero.
		for _, runs := range unicode.Nd.R16 {
			if uint32(r) >= uint32(runs.Lo) && uint32(r) <= uint32(runs.Hi) {
				return '0' + (r-rune(runs.Lo))%10
			}
		}
		for _, runs := range unicode.Nd.R32 {
			if uint32(r) >= runs.Lo && uint32(r) <= runs.Hi {
				return '0' + (r-rune(runs.Lo))%10
			}
		}
		return r
	}, text)
}

// joinUnderscores removes the underscores between digits. It returns false if there is any other character, or an
// underscore anywhere else.
func joinUnderscores(text string) (string, bool) {
	var b strings.Builder
	previous := byte('_')
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c >= '0' && c <= '9':
			b.WriteByte(c)
		case c != '_' || previous == '_':
			return "", false
		}
		previous = c
	}
	return b.String(), previous != '_'
}

// pythonRepr quotes text like Python's repr().
func pythonRepr(text string) string {
	quote := '\''
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range text {
		switch {
		case r == quote || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

func isASCII(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
