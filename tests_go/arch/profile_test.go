package arch_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"go/ast"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/arch"
)

// The compiler ignores functions of the profile that no longer exist, and reports nothing.
func TestTheProfileKnowsTheAllocator(t *testing.T) {
	declared := methods(t, "gocore/pool/bfc", "gocore/pool/chunks")
	method := regexp.MustCompile(`^gpuconf/(gocore/pool/(?:bfc|chunks)\.\(\*\w+\)\.\w+)$`)
	found := map[string]bool{}
	for _, name := range stringsOf(t, document(t, "pybind/_gpuconf/default.pgo")) {
		if match := method.FindStringSubmatch(name); match != nil {
			found[match[1]] = true
			require.Contains(t, declared, match[1], "the profile is older than the code: make bench WHAT=profile")
		}
	}
	require.Contains(t, found, "gocore/pool/bfc.(*Allocator).AllocateFor")
	require.Contains(t, found, "gocore/pool/bfc.(*Allocator).Free")
	require.Contains(t, found, "gocore/pool/chunks.(*Bins).Insert")
}

// methods returns the methods of the packages as a profile names them: "gocore/pool/bfc.(*Allocator).Free".
func methods(t *testing.T, folders ...string) map[string]bool {
	files, err := arch.ReadTree(root(t), folders...)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			if pointer, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				folder := f.Path[:strings.LastIndex(f.Path, "/")]
				names[folder+".(*"+pointer.X.(*ast.Ident).Name+")."+fn.Name.Name] = true
			}
		}
	}
	return names
}

// stringsOf returns the string table of a profile, which is field 6 of a compressed Protocol Buffers message.
func stringsOf(t *testing.T, profile string) (table []string) {
	unpacked, err := gzip.NewReader(strings.NewReader(profile))
	require.NoError(t, err)
	message, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	for r := bytes.NewReader(message); r.Len() > 0; {
		key, err := binary.ReadUvarint(r)
		require.NoError(t, err)
		value, err := binary.ReadUvarint(r) // of a number; of anything else, its length
		require.NoError(t, err)
		if key&7 == 2 {
			content := make([]byte, value)
			_, err := io.ReadFull(r, content)
			require.NoError(t, err)
			if key>>3 == 6 {
				table = append(table, string(content))
			}
		}
	}
	return table
}
