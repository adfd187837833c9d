// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"bytes"
	"context"
	"errors"
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

// The instructions, named as in Python's pickletools.
const (
	opMark            = '('
	opStop            = '.'
	opPop             = '0'
	opPopMark         = '1'
	opDup             = '2'
	opFloat           = 'F'
	opInt             = 'I'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opLong            = 'L'
	opBinInt2         = 'M'
	opNone            = 'N'
	opPersID          = 'P'
	opBinPersID       = 'Q'
	opReduce          = 'R'
	opString          = 'S'
	opBinString       = 'T'
	opShortBinString  = 'U'
	opUnicode         = 'V'
	opBinUnicode      = 'X'
	opAppend          = 'a'
	opBuild           = 'b'
	opGlobal          = 'c'
	opDict            = 'd'
	opEmptyDict       = '}'
	opAppends         = 'e'
	opGet             = 'g'
	opBinGet          = 'h'
	opInst            = 'i'
	opLongBinGet      = 'j'
	opList            = 'l'
	opEmptyList       = ']'
	opObj             = 'o'
	opPut             = 'p'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opSetItem         = 's'
	opTuple           = 't'
	opEmptyTuple      = ')'
	opSetItems        = 'u'
	opBinFloat        = 'G'
	opProto           = 0x80
	opNewObj          = 0x81
	opExt1            = 0x82
	opExt2            = 0x83
	opExt4            = 0x84
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opLong4           = 0x8b
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opEmptySet        = 0x8f
	opAddItems        = 0x90
	opFrozenSet       = 0x91
	opNewObjEx        = 0x92
	opStackGlobal     = 0x93
	opMemoize         = 0x94
	opFrame           = 0x95
	opByteArray8      = 0x96
	opNextBuffer      = 0x97
	opReadonlyBuffer  = 0x98
)

// latestProtocol is Python's latest protocol. Files of later protocols are rejected.
const latestProtocol = 5

// refused describes the instructions that need more than plain data.
var refused = map[byte]string{
	opReduce: "a call", opBuild: "an object's state", opInst: "an instance", opObj: "an instance",
	opNewObj:   "an instance",
	opNewObjEx: "an instance", opExt1: "an extension", opExt2: "an extension", opExt4: "an extension",
	opPersID: "an external object", opBinPersID: "an external object",
	opNextBuffer: "an external buffer", opReadonlyBuffer: "an external buffer",
}

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

func incomplete(wanted uint64, left int) error {
	return fmt.Errorf("the file is incomplete (missing bytes: %d): copy or record it again", wanted-uint64(left))
}

// take returns the next n bytes.
func (m *machine) take(n int) ([]byte, error) {
	if n > len(m.data)-m.at {
		return nil, incomplete(uint64(n), len(m.data)-m.at)
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
		err = incomplete(uint64(n), len(m.data)-m.at)
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

// Budget bounds the memory, and with it the work, that a file can cause (invariants 2 and 3).
type Budget struct {
	all, left int
}

// A snapshot takes about four times its size, and up to sixteen times if its stacks are long: a reference to a frame
// takes two bytes of the file and sixteen here. The base is for small snapshots that refer to the same event many
// times.
const (
	baseBytes    = 4 << 20
	bytesPerByte = 32
)

// NewBudget returns the budget for a file of the given size.
func NewBudget(fileBytes int) *Budget {
	all := baseBytes + bytesPerByte*fileBytes
	return &Budget{all: all, left: all}
}

// Take charges bytes, or fails if fewer are left.
func (b *Budget) Take(bytes int) error {
	if bytes > b.left {
		return fmt.Errorf("its contents take more than %d MiB of memory, more than %d times the size of the file",
			b.all>>20, bytesPerByte)
	}
	b.left -= bytes
	return nil
}
