package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// File is one Go source file of the module.
type File struct {
	Path    string // from the module's root, with slashes: "gocore/bfc/check.go"
	Source  []byte
	Syntax  *ast.File
	Set     *token.FileSet
	Imports map[string]string // local name -> import path
}

// Package returns the file's package as the policy names it: "bfc" for gocore/bfc, "pybind/process" for pybind/process.
func (f *File) Package() string {
	return strings.TrimPrefix(filepath.ToSlash(filepath.Dir(f.Path)), "gocore/")
}

// ImportsC reports whether the file uses cgo.
func (f *File) ImportsC() bool { return f.Imports["C"] == "C" }

// StartsGoroutines reports whether code has a go statement, or a call of a method Go such as sync.WaitGroup's.
func StartsGoroutines(code ast.Node) (starts bool) {
	ast.Inspect(code, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.SelectorExpr:
			starts = starts || n.Sel.Name == "Go"
		}
		return !starts
	})
	return starts
}

// ReachesGoroutines returns a function of a package's files that starts goroutines or runs beside others
// (testing.T.Parallel), and that a function reaches: whatever it names counts as reached. known is false if no file has
// the function.
func ReachesGoroutines(files []*File, function string) (starter string, known bool) {
	bodies := map[string][]ast.Node{}
	for _, file := range files {
		for _, one := range file.Syntax.Decls {
			if f, ok := one.(*ast.FuncDecl); ok {
				bodies[f.Name.Name] = append(bodies[f.Name.Name], f)
			}
		}
	}
	_, known = bodies[function]
	reached := []string{function}
	for i := 0; i < len(reached); i++ {
		for _, body := range bodies[reached[i]] {
			ast.Inspect(body, func(node ast.Node) bool {
				if name, ok := node.(*ast.Ident); ok {
					if name.Name == "Parallel" {
						starter = reached[i]
					}
					if _, is := bodies[name.Name]; is && !slices.Contains(reached, name.Name) {
						reached = append(reached, name.Name)
					}
				}
				return true
			})
			if StartsGoroutines(body) {
				starter = reached[i]
			}
		}
	}
	return starter, known
}

// ParseFile reads one file's source.
func ParseFile(path string, source []byte) (*File, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, path, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path, Source: source, Syntax: syntax, Set: set, Imports: map[string]string{}}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		name := imported[strings.LastIndex(imported, "/")+1:]
		if spec.Name != nil && spec.Name.Name != "_" {
			name = spec.Name.Name
		}
		f.Imports[name] = imported
	}
	return f, nil
}

// ReadTree reads the module's Go files below the given folders. It leaves out what Go leaves out (names with a leading
// "_" or ".", testdata), and other modules.
func ReadTree(root string, folders ...string) ([]*File, error) {
	var files []*File
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				if leftOut(path, entry.Name()) {
					return filepath.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(path, ".go") {
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			file, err := ParseFile(filepath.ToSlash(relative), source)
			if err != nil {
				return err
			}
			files = append(files, file)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func leftOut(path, name string) bool {
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || name == "testdata" {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}
