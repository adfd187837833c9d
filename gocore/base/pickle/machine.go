// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"context"
	"fmt"
)

// Read reads a pickle. words are the texts that the caller needs: dictionary keys, and values that it compares. Errors
// name the byte offset.
func Read(ctx context.Context, data []byte, words []string, budget *Budget) (*Tree, Value, error) {
	m := machine{data: data, budget: budget, tree: &Tree{}, words: map[string]uint16{}}
	for i, word := range words {
		m.words[word] = uint16(i + 1)
		m.longest = max(m.longest, len(word))
	}
	root, err := m.run(ctx)
	if err != nil {
		return nil, Value{}, err
	}
	return m.tree, root, nil
}

// machine is the stack machine that a pickle is a program for.
type machine struct {
	data   []byte
	at     int // the next byte
	budget *Budget
	tree   *Tree

	stack []Value
	marks []int // lengths of the stack

	memo   []Value          // entries created in order, as Python creates them
	others map[uint64]Value // all others; a map, so that a large index does not allocate memory

	words   map[string]uint16
	longest int // bytes of the longest word
}

// stepsBetween is how many instructions run between two checks of the context (invariant 1).
const stepsBetween = 1 << 12

func (m *machine) run(ctx context.Context) (root Value, err error) {
	for step := 0; ; step++ {
		if step%stepsBetween == 0 {
			if err := ctx.Err(); err != nil {
				return Value{}, err
			}
		}
		if m.at >= len(m.data) {
			return Value{}, fmt.Errorf("at byte %d: the pickle ends early", m.at)
		}
		began := m.at
		op := m.data[m.at]
		m.at++
		if op == opStop {
			if root, err = m.pop(); err == nil {
				return root, nil
			}
		} else {
			err = m.step(op)
		}
		if err != nil {
			return Value{}, fmt.Errorf("at byte %d: %w", began, err)
		}
	}
}

// step runs one instruction.
func (m *machine) step(op byte) error {
	switch op {
	case opProto:
		return m.protocol()
	case opFrame:
		_, err := m.length(8) // the frame's contents are read as if they were not framed
		return err
	case opMark:
		m.marks = append(m.marks, len(m.stack))
		return m.budget.Take(valueBytes)
	case opPop:
		if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
			m.marks = m.marks[:n-1]
			return nil
		}
		_, err := m.pop()
		return err
	case opPopMark:
		_, err := m.popMark()
		return err
	case opDup:
		v, err := m.top()
		if err != nil {
			return err
		}
		return m.push(v)
	case opGlobal, opStackGlobal:
		return m.global(op)
	}
	if handled, err := m.scalar(op); handled {
		return err
	}
	if handled, err := m.memory(op); handled {
		return err
	}
	if handled, err := m.container(op); handled {
		return err
	}
	if what, known := refused[op]; known {
		return fmt.Errorf("it contains %s; only plain containers are supported", what)
	}
	return fmt.Errorf("unknown opcode 0x%02x", op)
}

func (m *machine) protocol() error {
	version, err := m.take(1)
	if err == nil && version[0] > latestProtocol {
		err = fmt.Errorf("unsupported pickle protocol: %d", version[0])
	}
	return err
}

// global rejects a reference to a class or function.
func (m *machine) global(op byte) error {
	var module, name string
	if op == opGlobal {
		first, err := m.line()
		if err != nil {
			return err
		}
		second, err := m.line()
		if err != nil {
			return err
		}
		module, name = m.shown(first), m.shown(second)
	} else {
		second, err := m.pop()
		if err != nil {
			return err
		}
		first, err := m.pop()
		if err != nil {
			return err
		}
		module, name = m.text(first), m.text(second)
	}
	return fmt.Errorf("it refers to %s.%s; only plain containers are supported", module, name)
}
