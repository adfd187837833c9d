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
	m := machine{data: data, budget: budget, tree: &Tree{words: words, number: map[string]uint16{}}}
	for i, word := range words {
		m.tree.number[word] = uint16(i + 1)
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
		switch do := instructions[op]; {
		case op == stop:
			if root, err = m.pop(); err == nil {
				return root, nil
			}
		case do == nil:
			err = fmt.Errorf("unknown opcode 0x%02x", op)
		default:
			err = do(m)
		}
		if err != nil {
			return Value{}, fmt.Errorf("at byte %d: %w", began, err)
		}
	}
}

// An instruction reads its argument, if it has one, and changes the stack.
type instruction func(m *machine) error

const stop = '.' // ends the pickle

// instructions has what each instruction does, with its name in Python's pickletools; nil: there is none.
var instructions = [256]instruction{
	0x80: (*machine).protocol, // PROTO
	0x95: (*machine).frame,    // FRAME
	'(':  (*machine).mark,     // MARK
	'0':  (*machine).drop,     // POP
	'1':  (*machine).dropMark, // POP_MARK
	'2':  (*machine).double,   // DUP

	'N':  constant(Value{kind: None}),          // NONE
	0x88: constant(Value{kind: Bool, bits: 1}), // NEWTRUE
	0x89: constant(Value{kind: Bool}),          // NEWFALSE
	'K':  fixedInt(1),                          // BININT1
	'M':  fixedInt(2),                          // BININT2
	'J':  pushing((*machine).signedInt),        // BININT
	0x8a: longInt(1),                           // LONG1
	0x8b: longInt(4),                           // LONG4
	'I':  pushing((*machine).intLine),          // INT
	'L':  pushing((*machine).longLine),         // LONG
	'G':  pushing((*machine).binaryFloat),      // BINFLOAT
	'F':  pushing((*machine).decimalFloat),     // FLOAT

	0x8c: counted(Text, 1),                // SHORT_BINUNICODE
	'U':  counted(Text, 1),                // SHORT_BINSTRING
	'X':  counted(Text, 4),                // BINUNICODE
	'T':  counted(Text, 4),                // BINSTRING
	0x8d: counted(Text, 8),                // BINUNICODE8
	'V':  pushing((*machine).unicodeLine), // UNICODE
	'S':  pushing((*machine).stringLine),  // STRING
	'C':  counted(Bytes, 1),               // SHORT_BINBYTES
	'B':  counted(Bytes, 4),               // BINBYTES
	0x8e: counted(Bytes, 8),               // BINBYTES8
	0x96: counted(ByteArray, 8),           // BYTEARRAY8

	'q':  memo((*machine).memoize, number(1)),            // BINPUT
	'r':  memo((*machine).memoize, number(4)),            // LONG_BINPUT
	'p':  memo((*machine).memoize, (*machine).indexLine), // PUT
	0x94: memo((*machine).memoize, (*machine).nextIndex), // MEMOIZE
	'h':  memo((*machine).recall, number(1)),             // BINGET
	'j':  memo((*machine).recall, number(4)),             // LONG_BINGET
	'g':  memo((*machine).recall, (*machine).indexLine),  // GET

	']':  empty(List),                  // EMPTY_LIST
	'}':  empty(Dict),                  // EMPTY_DICT
	')':  constant(Value{kind: Tuple}), // EMPTY_TUPLE
	0x8f: constant(Value{kind: Set}),   // EMPTY_SET
	0x85: tuple(1),                     // TUPLE1
	0x86: tuple(2),                     // TUPLE2
	0x87: tuple(3),                     // TUPLE3
	't':  collect(Tuple),               // TUPLE
	'l':  collect(List),                // LIST
	'd':  collect(Dict),                // DICT
	0x91: collect(FrozenSet),           // FROZENSET
	'a':  fill(List, 1),                // APPEND
	's':  fill(Dict, 2),                // SETITEM
	'e':  fillSinceMark(List),          // APPENDS
	'u':  fillSinceMark(Dict),          // SETITEMS
	0x90: fillSinceMark(Set),           // ADDITEMS

	// What needs more than plain data.
	'c':  (*machine).globalLines,         // GLOBAL
	0x93: (*machine).stackGlobal,         // STACK_GLOBAL
	'R':  refusing("a call"),             // REDUCE
	'b':  refusing("an object's state"),  // BUILD
	'i':  refusing("an instance"),        // INST
	'o':  refusing("an instance"),        // OBJ
	0x81: refusing("an instance"),        // NEWOBJ
	0x92: refusing("an instance"),        // NEWOBJ_EX
	0x82: refusing("an extension"),       // EXT1
	0x83: refusing("an extension"),       // EXT2
	0x84: refusing("an extension"),       // EXT4
	'P':  refusing("an external object"), // PERSID
	'Q':  refusing("an external object"), // BINPERSID
	0x97: refusing("an external buffer"), // NEXT_BUFFER
	0x98: refusing("an external buffer"), // READONLY_BUFFER
}

func refusing(what string) instruction {
	return func(*machine) error {
		return fmt.Errorf("it contains %s; only plain containers are supported", what)
	}
}

func constant(v Value) instruction { return func(m *machine) error { return m.push(v) } }

func pushing(read func(m *machine) (Value, error)) instruction {
	return func(m *machine) error {
		v, err := read(m)
		if err != nil {
			return err
		}
		return m.push(v)
	}
}

// latestProtocol is Python's latest protocol. Files of later protocols are rejected.
const latestProtocol = 5

func (m *machine) protocol() error {
	version, err := m.take(1)
	if err == nil && version[0] > latestProtocol {
		err = fmt.Errorf("unsupported pickle protocol: %d", version[0])
	}
	return err
}

// frame passes over a frame's length: its contents are read as if they were not framed.
func (m *machine) frame() error {
	_, err := m.length(8)
	return err
}

func (m *machine) mark() error {
	m.marks = append(m.marks, len(m.stack))
	return m.budget.Take(valueBytes)
}

// drop removes the top of the stack, be it a mark or a value.
func (m *machine) drop() error {
	if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
		m.marks = m.marks[:n-1]
		return nil
	}
	_, err := m.pop()
	return err
}

func (m *machine) dropMark() error {
	_, err := m.popMark()
	return err
}

func (m *machine) double() error {
	v, err := m.top()
	if err != nil {
		return err
	}
	return m.push(v)
}

// A pickle that names code is refused, by the name.
func errGlobal(module, name string) error {
	return fmt.Errorf("it refers to %s.%s; only plain containers are supported", module, name)
}

func (m *machine) globalLines() error {
	module, err := m.line()
	if err != nil {
		return err
	}
	name, err := m.line()
	if err != nil {
		return err
	}
	return errGlobal(m.shown(module), m.shown(name))
}

func (m *machine) stackGlobal() error {
	name, err := m.pop()
	if err != nil {
		return err
	}
	module, err := m.pop()
	if err != nil {
		return err
	}
	return errGlobal(m.text(module), m.text(name))
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
