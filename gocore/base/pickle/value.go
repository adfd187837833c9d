// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"math"
	"strconv"
	"strings"
)

// Kind is the Python type of a Value.
type Kind uint8

// The kinds. Unset means no value: a missing entry.
const (
	Unset Kind = iota
	None
	Bool
	Int
	Float
	Text
	Bytes
	ByteArray
	Tuple
	List
	Dict
	Set
	FrozenSet
)

var kindNames = [...]string{"nothing", "NoneType", "bool", "int", "float", "str", "bytes", "bytearray", "tuple", "list",
	"dict", "set", "frozenset"}

// String returns the name of the Python type.
func (k Kind) String() string { return kindNames[k] }

// Value is one object of a pickle. What it holds depends on its kind; a container's items are in its Tree.
type Value struct {
	// Bool, Int: the absolute value; Float: its bits; Text: its place in the file; Tuple: a pair; List, Dict: its
	// number
	bits     uint64
	kind     Kind
	negative bool
	large    bool   // an Int beyond 64 bits, whose value is not kept
	word     uint16 // of a Text: 1 + its index in the words, or 0
	key      uint16 // of an item of a Dict: that number of the word that is its key
}

// A text's position is packed into one number. Texts longer than textBytes are truncated in messages.
const (
	textBits  = 24
	textBytes = 1<<textBits - 1
)

// Kind returns the value's type.
func (v Value) Kind() Kind { return v.kind }

// Uint returns the value of an Int (or a Bool) from 0 to 2**64-1. ok is false for any other value.
func (v Value) Uint() (n uint64, ok bool) {
	return v.bits, (v.kind == Int || v.kind == Bool) && !v.negative && !v.large
}

// Number returns the value of an Int that Uint returns, or of a Float.
func (v Value) Number() (n float64, ok bool) {
	if v.kind == Float {
		return math.Float64frombits(v.bits), true
	}
	whole, ok := v.Uint()
	return float64(whole), ok
}

// A pair is a Tuple of two integers below 2**32, the only tuple whose items are kept. It needs no container: both are
// in bits.
const pairWord = 1

// Pair returns the items of such a Tuple.
func (v Value) Pair() (first, second uint64, ok bool) {
	return v.bits >> 32, v.bits & math.MaxUint32, v.kind == Tuple && v.word == pairWord
}

func tupleOf(items []Value) Value {
	made := Value{kind: Tuple}
	if len(items) != 2 {
		return made
	}
	first, ok := items[0].Uint()
	second, ok2 := items[1].Uint()
	if ok && ok2 && first <= math.MaxUint32 && second <= math.MaxUint32 {
		made.bits, made.word = first<<32|second, pairWord
	}
	return made
}

// Span returns the position of a Text in the file and its length, which is truncated at 16 MiB. In files of protocol 0
// the text there has escapes.
func (v Value) Span() (start, length int, ok bool) {
	return int(v.bits >> textBits), int(v.bits & textBytes), v.kind == Text
}

// String formats a simple value as Python's repr does, and any other value as its type.
func (v Value) String() string {
	switch {
	case v.kind == Unset || v.kind == None:
		return "None"
	case v.kind == Bool && v.bits == 1:
		return "True"
	case v.kind == Bool:
		return "False"
	case v.kind == Int && !v.large && v.negative:
		return "-" + strconv.FormatUint(v.bits, 10)
	case v.kind == Int && !v.large:
		return strconv.FormatUint(v.bits, 10)
	case v.kind == Float:
		text := strconv.FormatFloat(math.Float64frombits(v.bits), 'g', -1, 64)
		if !strings.ContainsAny(text, ".eIN") {
			text += ".0"
		}
		return text
	}
	return v.kind.String()
}

// container holds a List's values, or those values of a Dict whose keys are words.
type container struct{ items []Value }

// The bytes charged to the Budget for each.
const (
	valueBytes     = 16
	containerBytes = 24
)

// Tree holds the containers of a pickle.
type Tree struct {
	chunks [][]container // of chunkLength each
	count  int
	words  []string
	number map[string]uint16 // of a word: 1 + its index
}

const chunkLength = 512

func (t *Tree) add(b *Budget) (number uint64, err error) {
	if t.count%chunkLength == 0 {
		if err := b.Take(chunkLength * containerBytes); err != nil {
			return 0, err
		}
		t.chunks = append(t.chunks, make([]container, chunkLength))
	}
	t.count++
	return uint64(t.count - 1), nil
}

func (t *Tree) at(v Value) *container { return &t.chunks[v.bits/chunkLength][v.bits%chunkLength] }

// Items returns the values of a List. They must not be changed.
func (t *Tree) Items(v Value) []Value {
	if v.kind != List {
		return nil
	}
	return t.at(v).items
}

// Word returns a Text if it is one of the words passed to Read, else "".
func (t *Tree) Word(v Value) string {
	if v.kind != Text || v.word == 0 {
		return ""
	}
	return t.words[v.word-1]
}

// Get returns the value of a word in a Dict, or an Unset value if there is none.
func (t *Tree) Get(v Value, word string) Value {
	if v.kind != Dict {
		return Value{}
	}
	number := t.number[word]
	for _, item := range t.at(v).items {
		if item.key == number {
			return item
		}
	}
	return Value{}
}
