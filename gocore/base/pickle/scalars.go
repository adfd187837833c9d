// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// fixedInt reads a number without a sign.
func fixedInt(size int) instruction {
	return pushing(func(m *machine) (Value, error) {
		n, err := m.unsigned(size)
		return Value{kind: Int, bits: n}, err
	})
}

func (m *machine) signedInt() (Value, error) {
	n, err := m.unsigned(4)
	if n := int64(int32(n)); n < 0 {
		return Value{kind: Int, bits: -uint64(n), negative: true}, err
	}
	return Value{kind: Int, bits: n}, err
}

// longInt reads a little-endian number in two's complement.
func longInt(lengthBytes int) instruction {
	return pushing(func(m *machine) (Value, error) { return m.longInt(lengthBytes) })
}

func (m *machine) longInt(lengthBytes int) (Value, error) {
	n, err := m.length(lengthBytes)
	if err != nil {
		return Value{}, err
	}
	raw, err := m.take(n)
	if err != nil || n == 0 {
		return Value{kind: Int}, err
	}
	v := Value{kind: Int, negative: raw[n-1] >= 0x80}
	var sign byte
	if v.negative {
		sign = 0xff
	}
	for len(raw) > 0 && raw[len(raw)-1] == sign {
		raw = raw[:len(raw)-1]
	}
	if len(raw) > 8 {
		v.large = true
		return v, nil
	}
	for i := range 8 {
		digit := sign
		if i < len(raw) {
			digit = raw[i]
		}
		v.bits |= uint64(digit) << (8 * i)
	}
	if v.negative {
		v.large = v.bits == 0 // -2**64
		v.bits = -v.bits
	}
	return v, nil
}

// intLine reads INT, which also stands for the booleans of old protocols.
func (m *machine) intLine() (Value, error) {
	raw, err := m.line()
	if err == nil && (string(raw) == "00" || string(raw) == "01") {
		return Value{kind: Bool, bits: uint64(raw[1] - '0')}, nil
	}
	return m.decimal(raw, err)
}

func (m *machine) longLine() (Value, error) {
	raw, err := m.line()
	return m.decimal(bytes.TrimSuffix(raw, []byte("L")), err)
}

func (m *machine) decimal(raw []byte, err error) (Value, error) {
	if err != nil {
		return Value{}, err
	}
	digits := bytes.TrimPrefix(raw, []byte("-"))
	v := Value{kind: Int, negative: len(digits) < len(raw)}
	for _, digit := range digits {
		if digit < '0' || digit > '9' {
			return Value{}, fmt.Errorf("%s is not a number", m.shown(raw))
		}
		next := uint64(digit - '0')
		v.large = v.large || v.bits > (math.MaxUint64-next)/10
		v.bits = v.bits*10 + next
	}
	if len(digits) == 0 {
		return Value{}, errors.New("a number without digits")
	}
	v.negative = v.negative && (v.bits > 0 || v.large)
	return v, nil
}

func (m *machine) binaryFloat() (Value, error) {
	raw, err := m.take(8)
	if err != nil {
		return Value{}, err
	}
	return Value{kind: Float, bits: binary.BigEndian.Uint64(raw)}, nil
}

func (m *machine) decimalFloat() (Value, error) {
	raw, err := m.line()
	if err != nil {
		return Value{}, err
	}
	const longest = 400 // more than any float has
	if len(raw) > longest {
		return Value{}, fmt.Errorf("a float of %d characters", len(raw))
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return Value{}, fmt.Errorf("%s is not a float", m.shown(raw))
	}
	return Value{kind: Float, bits: math.Float64bits(f)}, nil
}

// counted reads a text or bytes that follow their length.
func counted(kind Kind, lengthBytes int) instruction {
	return pushing(func(m *machine) (Value, error) {
		n, err := m.length(lengthBytes)
		if err != nil {
			return Value{}, err
		}
		at := m.at
		if _, err := m.take(n); err != nil {
			return Value{}, err
		}
		if kind != Text {
			return Value{kind: kind}, nil
		}
		return m.textAt(at, n), nil
	})
}

func (m *machine) unicodeLine() (Value, error) {
	at := m.at
	raw, err := m.line()
	return m.textAt(at, len(raw)), err
}

// stringLine reads a text in quotation marks. Escapes are not decoded: no word contains any.
func (m *machine) stringLine() (Value, error) {
	at := m.at
	raw, err := m.line()
	raw = bytes.TrimRight(raw, " \r\t")
	switch {
	case err != nil:
		return Value{}, err
	case len(raw) < 2 || raw[0] != raw[len(raw)-1] || raw[0] != '"' && raw[0] != '\'':
		return Value{}, errors.New("unquoted string")
	}
	return m.textAt(at+1, len(raw)-2), nil
}

func (m *machine) textAt(at, length int) Value {
	v := Value{kind: Text, bits: uint64(at)<<textBits | uint64(min(length, textBytes))}
	if length <= m.longest {
		v.word = m.tree.number[string(m.data[at:at+length])]
	}
	return v
}

// text formats a value that should be a text.
func (m *machine) text(v Value) string {
	if v.kind != Text {
		return v.String()
	}
	at := int(v.bits >> textBits)
	return m.shown(m.data[at : at+int(v.bits&textBytes)])
}

// shown shortens a piece of the file for a message.
func (m *machine) shown(raw []byte) string {
	const most = 60
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}
