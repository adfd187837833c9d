package pickle

import (
	"bytes"
	"errors"
	"fmt"
)

// take gives the next n bytes.
func (m *machine) take(n int) ([]byte, error) {
	if n > len(m.data)-m.at {
		return nil, fmt.Errorf("%d bytes are to follow, but the file has %d", n, len(m.data)-m.at)
	}
	raw := m.data[m.at : m.at+n]
	m.at += n
	return raw, nil
}

// unsigned reads a number of so many bytes, the lowest first.
func (m *machine) unsigned(size int) (n uint64, err error) {
	raw, err := m.take(size)
	for i, digit := range raw {
		n |= uint64(digit) << (8 * i)
	}
	return n, err
}

// length reads the length of what follows, which must be there.
func (m *machine) length(size int) (int, error) {
	n, err := m.unsigned(size)
	if err == nil && n > uint64(len(m.data)-m.at) {
		err = fmt.Errorf("%d bytes are to follow, but the file has %d", n, len(m.data)-m.at)
	}
	return int(n), err
}

func (m *machine) line() ([]byte, error) {
	n := bytes.IndexByte(m.data[m.at:], '\n')
	if n < 0 {
		return nil, errors.New("a line without an end")
	}
	raw, err := m.take(n + 1)
	return raw[:n], err
}
