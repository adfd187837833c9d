// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"bytes"
	"errors"
	"fmt"
)

// take returns the next n bytes.
func (m *machine) take(n int) ([]byte, error) {
	if n > len(m.data)-m.at {
		return nil, fmt.Errorf("expected %d more bytes, but the file has %d", n, len(m.data)-m.at)
	}
	raw := m.data[m.at : m.at+n]
	m.at += n
	return raw, nil
}

// unsigned reads a little-endian number of size bytes.
func (m *machine) unsigned(size int) (n uint64, err error) {
	raw, err := m.take(size)
	for i, digit := range raw {
		n |= uint64(digit) << (8 * i)
	}
	return n, err
}

// length reads the length of the data that follows, and checks that the file has that many bytes left.
func (m *machine) length(size int) (int, error) {
	n, err := m.unsigned(size)
	if err == nil && n > uint64(len(m.data)-m.at) {
		err = fmt.Errorf("expected %d more bytes, but the file has %d", n, len(m.data)-m.at)
	}
	return int(n), err
}

func (m *machine) line() ([]byte, error) {
	n := bytes.IndexByte(m.data[m.at:], '\n')
	if n < 0 {
		return nil, errors.New("unterminated line")
	}
	raw, err := m.take(n + 1)
	return raw[:n], err
}
