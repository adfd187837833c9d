package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
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

// StartsGoroutines reports whether code has a go statement, or names a function that starts a goroutine:
// time.AfterFunc, or a method Go such as sync.WaitGroup's.
func StartsGoroutines(code ast.Node) (starts bool) {
	ast.Inspect(code, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.SelectorExpr:
			starts = starts || n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc"
		}
		return !starts
	})
	return starts
}

// WithoutCompilers returns the files but for the one whose goroutines only wait for C compilers.
func WithoutCompilers(files []*File) []*File {
	isIt := func(f *File) bool { return f.Path == "tests_go/compiled/objects.go" }
	return slices.DeleteFunc(slices.Clone(files), isIt)
}

// Racing returns the tests, and their folders, that reach a function which starts goroutines or runs beside others
// (testing.T.Parallel), in their folder or in one that it imports: whatever has a name that occurs counts as reached.
// In other tests the race detector has nothing to find.
func Racing(files []*File) (tests, folders []string) {
	type place struct{ folder, name string }
	type body struct {
		folders []string // where its names may be from
		test    bool
		code    *ast.FuncDecl
	}
	bodies := map[place][]body{}
	for _, file := range files {
		folders := []string{path.Dir(file.Path)}
		for _, imported := range file.Imports {
			folders = append(folders, strings.TrimPrefix(imported, "gpuconf/"))
		}
		for _, one := range file.Syntax.Decls {
			if f, ok := one.(*ast.FuncDecl); ok {
				at := place{folders[0], f.Name.Name}
				test := strings.HasSuffix(file.Path, "_test.go") && strings.HasPrefix(at.name, "Test")
				bodies[at] = append(bodies[at], body{folders, test, f})
			}
		}
	}
	callers := map[place][]place{}
	var reach []place
	for at, list := range bodies {
		for _, one := range list {
			races := StartsGoroutines(one.code)
			ast.Inspect(one.code, func(node ast.Node) bool {
				if name, ok := node.(*ast.Ident); ok {
					races = races || name.Name == "Parallel"
					for _, folder := range one.folders {
						callers[place{folder, name.Name}] = append(callers[place{folder, name.Name}], at)
					}
				}
				return true
			})
			if races {
				reach = append(reach, at)
			}
		}
	}
	reached := map[place]bool{}
	for len(reach) > 0 {
		at := reach[0]
		if reach = reach[1:]; reached[at] {
			continue
		}
		reached[at] = true
		reach = append(reach, callers[at]...)
		if len(bodies[at]) > 0 && bodies[at][0].test {
			tests, folders = append(tests, at.name), append(folders, at.folder)
		}
	}
	slices.Sort(tests)
	slices.Sort(folders)
	return slices.Compact(tests), slices.Compact(folders)
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
