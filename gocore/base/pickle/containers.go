// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"errors"
	"fmt"
	"strconv"
)

// empty pushes a new list or dictionary.
func empty(kind Kind) instruction {
	return pushing(func(m *machine) (Value, error) {
		number, err := m.tree.add(m.budget)
		return Value{kind: kind, bits: number}, err
	})
}

// tuple makes one of the newest n values of the stack.
func tuple(n int) instruction {
	return pushing(func(m *machine) (Value, error) {
		items, err := m.newest(n)
		return tupleOf(items), err
	})
}

// newest removes the newest n values of the stack. The result is valid until the next push.
func (m *machine) newest(n int) (items []Value, err error) {
	if n > len(m.stack)-m.floor() {
		return nil, errEmpty
	}
	items = m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return items, nil
}

// collect creates a container from everything since the last mark.
func collect(kind Kind) instruction {
	return pushing(func(m *machine) (Value, error) {
		made := Value{kind: kind}
		items, err := m.popMark()
		switch {
		case err != nil || kind == FrozenSet:
			return made, err
		case kind == Tuple:
			return tupleOf(items), nil
		}
		// The items are still behind the stack's end: the container is filled before anything else is pushed.
		if made.bits, err = m.tree.add(m.budget); err == nil {
			err = m.put(made, items)
		}
		return made, err
	})
}

func fillSinceMark(want Kind) instruction {
	return func(m *machine) error {
		n, err := m.sinceMark()
		if err != nil {
			return err
		}
		m.marks = m.marks[:len(m.marks)-1]
		return m.fill(want, n)
	}
}

func fill(want Kind, n int) instruction {
	return func(m *machine) error { return m.fill(want, n) }
}

// fill puts the newest n values of the stack into the container below them.
func (m *machine) fill(want Kind, n int) error {
	items, err := m.newest(n)
	if err != nil {
		return err
	}
	target, err := m.top()
	if err != nil || n == 0 {
		return err // as in Python, where adding no items succeeds for any target
	}
	if target.kind != want {
		return fmt.Errorf("expected a %s to add items to, but got %s", want, target.kind)
	}
	return m.put(target, items)
}

// put adds values to a list, or keys and values to a dictionary.
func (m *machine) put(target Value, items []Value) (err error) {
	switch target.kind {
	case List:
		c := m.tree.at(target)
		if c.items, err = grown(m.budget, c.items, len(items)); err == nil {
			c.items = append(c.items, items...)
		}
	case Dict:
		if len(items)%2 != 0 {
			return errors.New("a key without a value")
		}
		err = m.putPairs(m.tree.at(target), items)
	}
	return err
}

// putPairs keeps the values whose keys are words. As in Python, the last value of a key counts.
func (m *machine) putPairs(c *container, pairs []Value) (err error) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].kind != Text || pairs[i].word == 0 {
			continue
		}
		item := pairs[i+1]
		item.key = pairs[i].word
		replaced := false
		for j := range c.items {
			if c.items[j].key == item.key {
				c.items[j], replaced = item, true
			}
		}
		if replaced {
			continue
		}
		if c.items, err = grown(m.budget, c.items, min((len(pairs)-i)/2, len(m.tree.words)-len(c.items))); err != nil {
			return err
		}
		c.items = append(c.items, item)
	}
	return nil
}

// grown returns a slice with room for n more values, and charges the budget for it.
func grown(b *Budget, values []Value, n int) ([]Value, error) {
	if n <= cap(values)-len(values) {
		return values, nil
	}
	room := len(values) + n
	if len(values) > 0 {
		room = max(room, len(values)+len(values)/2+4)
	}
	if err := b.Take((room - cap(values)) * valueBytes); err != nil {
		return values, err
	}
	return append(make([]Value, 0, room), values...), nil
}

// memo does something with an entry of the memo, which an index names.
func memo(do func(m *machine, index uint64) error, index func(m *machine) (uint64, error)) instruction {
	return func(m *machine) error {
		at, err := index(m)
		if err != nil {
			return err
		}
		return do(m, at)
	}
}

// number reads a little-endian number of size bytes.
func number(size int) func(m *machine) (uint64, error) {
	return func(m *machine) (uint64, error) { return m.unsigned(size) }
}

func (m *machine) nextIndex() (uint64, error) { return uint64(len(m.memo) + len(m.others)), nil }

func (m *machine) indexLine() (uint64, error) {
	raw, err := m.line()
	if err != nil {
		return 0, err
	}
	index, err := strconv.ParseUint(m.shown(raw), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s is not a memo index", m.shown(raw))
	}
	return index, nil
}

func (m *machine) memoize(index uint64) (err error) {
	v, err := m.top()
	if err != nil {
		return err
	}
	switch {
	case index < uint64(len(m.memo)):
		m.memo[index] = v
	case index == uint64(len(m.memo)):
		delete(m.others, index)
		if m.memo, err = grown(m.budget, m.memo, 1); err == nil {
			m.memo = append(m.memo, v)
		}
	default:
		if m.others == nil {
			m.others = map[uint64]Value{}
		}
		if _, there := m.others[index]; !there {
			const entryBytes = 4 * valueBytes // of a map
			err = m.budget.Take(entryBytes)
		}
		m.others[index] = v
	}
	return err
}

func (m *machine) recall(index uint64) error {
	if index < uint64(len(m.memo)) {
		return m.push(m.memo[index])
	}
	v, there := m.others[index]
	if !there {
		return fmt.Errorf("memo entry %d is not set", index)
	}
	return m.push(v)
}
