//go:build cgo

package pybind_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gpuconf/tests_go/must"
)

// bound parses package pybind and returns its exported functions by name, and any other exported names, of which there
// must be none.
func bound(t *testing.T, folder string) (functions map[string]*ast.FuncDecl, others []string) {
	entries := must.OK(os.ReadDir(folder))(t)
	functions = map[string]*ast.FuncDecl{}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".go" {
			continue
		}
		file := must.OK(parser.ParseFile(token.NewFileSet(), filepath.Join(folder, entry.Name()), nil, 0))(t)
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					functions[d.Name.Name] = d
				}
			case *ast.GenDecl:
				others = append(others, exportedNames(d)...)
			}
		}
	}
	return functions, others
}

func exportedNames(d *ast.GenDecl) (names []string) {
	for _, spec := range d.Specs {
		var idents []*ast.Ident
		switch s := spec.(type) {
		case *ast.TypeSpec:
			idents = []*ast.Ident{s.Name}
		case *ast.ValueSpec:
			idents = s.Names
		}
		for _, ident := range idents {
			if ident.IsExported() {
				names = append(names, d.Tok.String()+" "+ident.Name)
			}
		}
	}
	return names
}

// breaks returns how a bound function violates the rules of package pybind's comment.
func breaks(f *ast.FuncDecl) (broken []string) {
	if f.Type.TypeParams != nil {
		broken = append(broken, "type parameters")
	}
	crossing := []string{"int64", "string", "bool"}
	for _, field := range f.Type.Params.List {
		if kind := typeName(field.Type); !slices.Contains(crossing, kind) {
			broken = append(broken, fmt.Sprintf("a parameter of type %s: only %v cross", kind, crossing))
		}
	}
	var results []string
	for _, field := range f.Type.Results.List {
		name := "_"
		if len(field.Names) == 1 {
			name = field.Names[0].Name
		}
		results = append(results, name+" "+typeName(field.Type))
	}
	if len(results) != 2 || results[1] != "err error" || !slices.Contains(crossing, strings.Fields(results[0])[1]) {
		broken = append(broken, fmt.Sprintf("results (%s): they must be (T, err error)", strings.Join(results, ", ")))
	}
	if len(f.Body.List) == 0 || !opensGate(f.Body.List[0]) {
		broken = append(broken, "the first line is not: defer process.Gate(&err)")
	}
	return broken
}

func typeName(e ast.Expr) string {
	if ident, ok := e.(*ast.Ident); ok {
		return ident.Name
	}
	return fmt.Sprintf("%T", e)
}

func opensGate(s ast.Stmt) bool {
	deferred, ok := s.(*ast.DeferStmt)
	if !ok || len(deferred.Call.Args) != 1 {
		return false
	}
	function, ok := deferred.Call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "Gate" || typeName(function.X) != "process" {
		return false
	}
	address, ok := deferred.Call.Args[0].(*ast.UnaryExpr)
	return ok && address.Op == token.AND && typeName(address.X) == "err"
}

func TestBoundFunctionsKeepTheRules(t *testing.T) {
	functions, others := bound(t, "../../../pybind")
	require.Empty(t, others, "gopy would bind these; only functions cross")
	require.NotEmpty(t, functions)
	for name, function := range functions {
		require.Empty(t, breaks(function), name)
	}
}

// The test of the rules: each line violates one.
func TestRulesAreNoticed(t *testing.T) {
	for _, source := range []string{
		"func F(n int) (done bool, err error) { defer process.Gate(&err); return }",
		"func F(n uint64) (done bool, err error) { defer process.Gate(&err); return }",
		"func F(n []byte) (done bool, err error) { defer process.Gate(&err); return }",
		"func F() (err error) { defer process.Gate(&err); return }",
		"func F() (bool, error) { defer process.Gate(&err); return }",
		"func F() (done bool, text string, err error) { defer process.Gate(&err); return }",
		"func F() (m map[string]int, err error) { defer process.Gate(&err); return }",
		"func F() (done bool, err error) { return }",
		"func F() (done bool, err error) { var e error; defer process.Gate(&e); return }",
		"func F() (done bool, err error) { x(); defer process.Gate(&err); return }",
		"func F() (done bool, err error) { process.Gate(&err); return }",
		"func F[T any]() (done bool, err error) { defer process.Gate(&err); return }",
	} {
		file := must.OK(parser.ParseFile(token.NewFileSet(), "f.go", "package p\n"+source, 0))(t)
		require.Len(t, breaks(file.Decls[0].(*ast.FuncDecl)), 1, source)
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "f.go"),
		[]byte("package p\ntype T int\nconst C = 1\nvar V, w int\nvar x int"), 0o600))
	_, others := bound(t, folder)
	require.Equal(t, []string{"type T", "const C", "var V"}, others)
}
