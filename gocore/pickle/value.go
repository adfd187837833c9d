package pickle

import (
	"math"
	"strconv"
	"strings"
)

// Kind is the Python type of a Value.
type Kind uint8

// The kinds. Unset is no value: an entry that is not there.
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

var kindNames = [...]string{"nothing", "NoneType", "bool", "int", "float", "str", "bytes", "bytearray", "tuple", "list", "dict", "set", "frozenset"}

// String is the name of the Python type.
func (k Kind) String() string { return kindNames[k] }

// Value is one object of a pickle. What it holds depends on its kind; a container's items are in its Tree.
type Value struct {
	bits     uint64 // Bool, Int: the absolute value; Float: its bits; Text: its place in the file; List, Dict: its number
	kind     Kind
	negative bool
	large    bool   // an Int beyond 64 bits, which is not kept
	word     uint16 // of a Text: 1 + its index in the words, or 0
	key      uint16 // of an item of a Dict: the word that it stands under
}

// A text's place is packed into one number. What is longer than textBytes is cut off when it is shown.
const (
	textBits  = 24
	textBytes = 1<<textBits - 1
)

// Kind is the value's type.
func (v Value) Kind() Kind { return v.kind }

// Uint is the value of an Int (or a Bool) from 0 to 2**64-1.
func (v Value) Uint() (n uint64, ok bool) {
	return v.bits, (v.kind == Int || v.kind == Bool) && !v.negative && !v.large
}

// Word is the index of a Text in the words that Read was called with, or -1.
func (v Value) Word() int {
	if v.kind != Text {
		return -1
	}
	return int(v.word) - 1
}

// String shows a small value, as Python's repr does, and of another one its type.
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

// container is a List's values, or a Dict's that have a word for a key.
type container struct{ items []Value }

// What is charged for each.
const (
	valueBytes     = 16
	containerBytes = 24
)

// Tree holds the containers of a pickle.
type Tree struct {
	chunks [][]container // of chunkLength each
	count  int
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

// Items are the values of a List. They are not to be changed.
func (t *Tree) Items(v Value) []Value {
	if v.kind != List {
		return nil
	}
	return t.at(v).items
}

// Get is the value that a Dict has under a word, Unset where there is none.
func (t *Tree) Get(v Value, word int) Value {
	if v.kind != Dict {
		return Value{}
	}
	for _, item := range t.at(v).items {
		if int(item.key) == word {
			return item
		}
	}
	return Value{}
}
