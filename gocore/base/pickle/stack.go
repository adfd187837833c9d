// SPDX-License-Identifier: Apache-2.0

package pickle

import "errors"

var errEmpty = errors.New("the stack is empty")

// floor returns the length of the stack at the last mark. Values below it are not accessible.
func (m *machine) floor() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

func (m *machine) push(v Value) (err error) {
	if m.stack, err = grown(m.budget, m.stack, 1); err != nil {
		return err
	}
	v.key = 0
	m.stack = append(m.stack, v)
	return nil
}

func (m *machine) top() (Value, error) {
	if len(m.stack) <= m.floor() {
		return Value{}, errEmpty
	}
	return m.stack[len(m.stack)-1], nil
}

func (m *machine) pop() (Value, error) {
	v, err := m.top()
	if err == nil {
		m.stack = m.stack[:len(m.stack)-1]
	}
	return v, err
}

func (m *machine) sinceMark() (n int, err error) {
	if len(m.marks) == 0 {
		return 0, errors.New("there is no mark on the stack")
	}
	return len(m.stack) - m.floor(), nil
}

// popMark removes everything since the last mark. The result is valid until the next push.
func (m *machine) popMark() (items []Value, err error) {
	n, err := m.sinceMark()
	if err != nil {
		return nil, err
	}
	items = m.stack[len(m.stack)-n:]
	m.stack, m.marks = m.stack[:len(m.stack)-n], m.marks[:len(m.marks)-1]
	return items, nil
}
