package pickle_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/pickle"
	"gpuconf/tests_go/must"
)

var words = []string{"a", "b", "long word"}

func read(data string) (*pickle.Tree, pickle.Value, error) {
	return pickle.Read(context.Background(), []byte(data), words, pickle.NewBudget(len(data)))
}

// Written by hand, or by Python's pickle with all its protocols.
func TestPlainValues(t *testing.T) {
	for _, row := range []struct{ name, data, want string }{
		{"None", "\x80\x04N.", "None"},
		{"True", "\x80\x04\x88.", "True"},
		{"False", "\x80\x04\x89.", "False"},
		{"True of protocol 0", "I01\n.", "True"},
		{"one byte", "K\xff.", "255"},
		{"two bytes", "M\xff\xff.", "65535"},
		{"four bytes", "J\x00\x00\x00\x80.", "-2147483648"},
		{"0 without a byte", "\x8a\x00.", "0"},
		{"-1", "\x8a\x01\xff.", "-1"},
		{"255", "\x8a\x02\xff\x00.", "255"},
		{"2**64-1", "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.", "18446744073709551615"},
		{"-2**63", "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", "-9223372036854775808"},
		{"2**64", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "int"},
		{"-2**64", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff.", "int"},
		{"a long of four bytes' length", "\x8b\x01\x00\x00\x00\x07.", "7"},
		{"decimal", "I-70\n.", "-70"},
		{"decimal, long", "L18446744073709551615L\n.", "18446744073709551615"},
		{"decimal, too long", "L18446744073709551616L\n.", "int"},
		{"many digits", "I" + strings.Repeat("9", 10_000) + "\n.", "int"},
		{"-0", "I-0\n.", "0"},
		{"a float", "G\x3f\xf8\x00\x00\x00\x00\x00\x00.", "1.5"},
		{"a whole float", "G\x40\x00\x00\x00\x00\x00\x00\x00.", "2.0"},
		{"a decimal float", "F1e3\n.", "1000.0"},
		{"a text", "\x8c\x01x.", "str"},
		{"a text of protocol 0", "Va\n.", "str"},
		{"a string in quotes", "S'a'\n.", "str"},
		{"bytes", "C\x01x.", "bytes"},
		{"a bytearray", "\x96\x01\x00\x00\x00\x00\x00\x00\x00x.", "bytearray"},
		{"a tuple", "(K\x01K\x02t.", "tuple"},
		{"a tuple of three", "NNN\x87.", "tuple"},
		{"a set", "\x8f(K\x01\x90.", "set"},
		{"a frozenset", "(K\x01\x91.", "frozenset"},
		{"nothing added to a number", "K\x01(e.", "1"},
		{"what is behind the end", "N.anything", "None"},
		{"a mark that is popped", "N(0.", "None"},
		{"a memo without order", "K\x01q\x09K\x02q\x00K\x03\x940h\x09.", "1"},
		{"a memo of protocol 0", "K\x05p12\n0g12\n.", "5"},
		{"a memo index of 2**32-1", "K\x05r\xff\xff\xff\xff0j\xff\xff\xff\xff.", "5"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, value := must.OK2(read(row.data))(t)
			require.Equal(t, row.want, value.String())
		})
	}
}

func TestContainers(t *testing.T) {
	for _, row := range []struct{ name, data string }{
		{"a list", "]q\x00(K\x01\x8c\x01ae."},
		{"one by one", "]K\x01a\x8c\x01aa."},
		{"of protocol 0", "(K\x01S'a'\nl."},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree, list := must.OK2(read(row.data))(t)
			require.Equal(t, pickle.List, list.Kind())
			items := tree.Items(list)
			require.Len(t, items, 2)
			n, ok := items[0].Uint()
			require.True(t, ok)
			require.EqualValues(t, 1, n)
			require.Equal(t, "", tree.Word(items[0]))
			require.Equal(t, "a", tree.Word(items[1]))
		})
	}
	for _, row := range []struct{ name, data string }{
		{"a dictionary", "}(\x8c\x01bK\x01\x8c\x07unknown]\x8c\x01bK\x02K\x07Nu."},
		{"one by one", "}\x8c\x01bK\x02s."},
		{"of protocol 0", "(S'b'\nK\x02d."},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree, dict := must.OK2(read(row.data))(t)
			require.Equal(t, "2", tree.Get(dict, "b").String(), "the last one of a key counts")
			require.Equal(t, pickle.Unset, tree.Get(dict, "a").Kind())
			require.Empty(t, tree.Items(dict))
		})
	}
	tree, list := must.OK2(read("]\x94h\x00a."))(t)
	require.Equal(t, list, tree.Items(list)[0], "a list that contains itself")
}

func TestPicklesThatAreNone(t *testing.T) {
	for _, row := range []struct{ name, data, want string }{
		{"nothing", "", "at byte 0: the pickle ends early"},
		{"no end", "\x80\x04N", "at byte 3: the pickle ends early"},
		{"an empty stack", "\x80\x04.", "at byte 2: the stack is empty"},
		{"an unknown opcode", "\x80\x04\xfe.", "at byte 2: unknown opcode 0xfe"},
		{"a protocol to come", "\x80\x06N.", "unsupported pickle protocol: 6"},
		{"a mark that is not there", "t.", "no mark on the stack"},
		{"a mark in between", "N(a.", "the stack is empty"},
		{"the end above a mark", "N(.", "the stack is empty"},
		{"a memo entry that is not set", "h\x05.", "memo entry 5 is not set"},
		{"a memo of nothing", "\x94.", "the stack is empty"},
		{"a memo index that is none", "Np-1\n.", "-1 is not a memo index"},
		{"items of a number", "K\x01(Ne.", "expected a list to add items to, but got int"},
		{"items of the wrong kind", "](NNu.", "expected a dict to add items to, but got list"},
		{"a key without a value", "}(Nu.", "a key without a value"},
		{"a number without digits", "I\n.", "a number without digits"},
		{"a number that is none", "I1x\n.", "1x is not a number"},
		{"a float that is none", "Fone\n.", "one is not a float"},
		{"a long float", "F" + strings.Repeat("1", 1000) + "\n.", "a float of 1000 characters"},
		{"no quotes", "Sabc\n.", "unquoted string"},
		{"a line without an end", "I12", "unterminated line"},
		{"a class", "cos\nsystem\n.", "it refers to os.system; only plain containers are supported"},
		{"a class from the stack", "\x8c\x02os\x8c\x06system\x93.", "it refers to os.system;"},
		{"a call", "NNR.", "it contains a call"},
		{"an extension", "\x82\x01.", "it contains an extension"},
		{"a persistent id", "Pid\n.", "it contains an external object"},
		{"a buffer", "\x97.", "it contains an external buffer"},
	} {
		t.Run(row.name, func(t *testing.T) { require.ErrorContains(t, must.Err2(read(row.data)), row.want) })
	}
}

// Every instruction with a numeric argument, with the largest possible one.
func TestNoNumberSizesAnAllocation(t *testing.T) {
	huge := strings.Repeat("\xff", 8)
	for name, data := range map[string]string{
		"LONG_BINPUT": "\x80\x04K\x01r\xff\xff\xff\x3f.", "PUT": "Np9223372036854775807\n.", "FRAME": "\x95" + huge,
		"BINUNICODE": "X" + huge, "BINUNICODE8": "\x8d" + huge, "BINBYTES": "B" + huge, "BINBYTES8": "\x8e" + huge,
		"BYTEARRAY8": "\x96" + huge,
		"BINSTRING":  "T" + huge, "LONG4": "\x8b" + huge, "LONG1": "\x8a\xff", "SHORT_BINUNICODE": "\x8c\xff",
		"SHORT_BINBYTES":      "C\xff",
		"BYTEARRAY8 of 2**40": "\x96\x00\x00\x00\x00\x00\x01\x00\x00x",
	} {
		t.Run(name, func(t *testing.T) {
			bytes, _ := allocated(func() { _, _, _ = read(data) })
			require.Less(t, bytes, uint64(64<<10))
		})
	}
}

// allocated returns how much memory fn allocates, including a little of the test's own.
func allocated(fn func()) (bytes, blocks uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// A file whose instructions each take as much memory as they can ends with an error when the budget is exhausted.
func TestBudget(t *testing.T) {
	const size = 4 << 20
	var memo strings.Builder
	for i := range uint32(size / 6) {
		memo.WriteByte('N')
		memo.WriteByte('r')
		_ = binary.Write(&memo, binary.LittleEndian, 1<<31+7*i)
	}
	for name, data := range map[string]string{
		"lists": strings.Repeat("]", size), "dictionaries": strings.Repeat("}\x94", size/2),
		"marks":  strings.Repeat("(", size),
		"copies": "N" + strings.Repeat("2", size), "deep nesting": "]" + strings.Repeat("]2a", size/3),
		"memo indexes":                           memo.String(),
		"one list, filled with copies of itself": "]\x94" + strings.Repeat("(h\x00h\x00h\x00h\x00e", size/10),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := pickle.Read(context.Background(), []byte(data), words, pickle.NewBudget(len(data)))
			require.Error(t, err)
			small := data[:size/16]
			bytes, _ := allocated(func() { _, _, _ = read(small) })
			require.Less(t, bytes/uint64(len(small)), uint64(200), "of all that was ever taken, most was given back")
		})
	}
	_, _, err := pickle.Read(context.Background(), []byte(strings.Repeat("]", size)), words, pickle.NewBudget(0))
	require.ErrorContains(t, err, "its contents take more than 4 MiB of memory, more than 32 times the size of the "+
		"file")
}

func TestReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, must.Err2(pickle.Read(ctx, []byte("N."), words, pickle.NewBudget(2))), context.Canceled)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x80\x04K\x01r\xff\xff\xff\x3f."))
	f.Add([]byte("\x80\x05\x96\xff\x00\x00\x00\x00\x00\x00\x00x."))
	f.Add([]byte(
		"\x80\x04\x95\x20\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01M\xff\xffJ\xff\xff\xff\xffe" +
			"\x8c\x01b\x94G\x3f\xf8\x00\x00\x00\x00\x00\x00u."))
	f.Add([]byte("(dp0\nS'a'\np1\n(lp2\nI1\naL12L\naF1.5\nasVb\np3\ng2\ns."))
	f.Add([]byte(
		"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(" +
			"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80N\x88\x89e\x8f(K\x01\x90\x94h\x01u."))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tree *pickle.Tree
		var root pickle.Value
		var err error
		bytes, _ := allocated(func() {
			tree, root, err = pickle.Read(context.Background(), data, words, pickle.NewBudget(len(data)))
		})
		require.Less(t, bytes, uint64(256<<10+200*len(data)))
		if err == nil {
			_ = root.String()
			_ = len(tree.Items(root)) + len(tree.Get(root, "a").String())
		}
	})
}
