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
	Path    string // from the module's root, with slashes: "gocore/pool/bfc/check.go"
	Source  []byte
	Syntax  *ast.File
	Set     *token.FileSet
	Imports map[string]string // local name -> import path
}

// Package returns the file's package as the policy names it: "pool/bfc" for gocore/pool/bfc, "pybind/process" for
// pybind/process.
func (f *File) Package() string {
	return strings.TrimPrefix(filepath.ToSlash(filepath.Dir(f.Path)), "gocore/")
}

// ImportsC reports whether the file uses cgo.
func (f *File) ImportsC() bool { return f.Imports["C"] == "C" }

var starters = []string{"Go", "AfterFunc", "Eventually", "EventuallyWithT", "Never"}

// StartsGoroutines reports whether code has a go statement, or names a function that starts goroutines: time.AfterFunc,
// testify's Eventually, or a method Go such as sync.WaitGroup's.
func StartsGoroutines(code ast.Node) (starts bool) {
	ast.Inspect(code, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.SelectorExpr:
			starts = starts || slices.Contains(starters, n.Sel.Name)
		}
		return !starts
	})
	return starts
}

// ReachesGoroutines returns a function that starts goroutines or runs beside others (testing.T.Parallel), and that a
// function of a folder of tests reaches there and in the folders of tests that it imports: whatever has a name that
// occurs counts as reached. What a child process runs, by a word of its command line, is not seen. known is false if
// the folder does not have the function.
func ReachesGoroutines(files []*File, folder, function string) (starter string, known bool) {
	type place struct{ folder, name string }
	type body struct {
		file *File
		code ast.Node
	}
	bodies := map[place][]body{}
	for _, file := range files {
		for _, one := range file.Syntax.Decls {
			if f, ok := one.(*ast.FuncDecl); ok {
				at := place{path.Dir(file.Path), f.Name.Name}
				bodies[at] = append(bodies[at], body{file, f})
			}
		}
	}
	reached := []place{{folder, function}}
	_, known = bodies[reached[0]]
	for i := 0; i < len(reached); i++ {
		for _, one := range bodies[reached[i]] {
			folders := []string{reached[i].folder}
			for _, imported := range one.file.Imports {
				folders = append(folders, strings.TrimPrefix(imported, "gpuconf/"))
			}
			ast.Inspect(one.code, func(node ast.Node) bool {
				name, ok := node.(*ast.Ident)
				if !ok {
					return true
				}
				if name.Name == "Parallel" {
					starter = reached[i].name
				}
				for _, folder := range folders {
					at := place{folder, name.Name}
					if _, is := bodies[at]; is && !slices.Contains(reached, at) {
						reached = append(reached, at)
					}
				}
				return true
			})
			if StartsGoroutines(one.code) {
				starter = reached[i].name
			}
		}
	}
	return starter, known
}

// OneGoroutine is what a long test says when it leaves itself out under -short, which is how `make race` runs: with one
// goroutine, the race detector has nothing to find in it.
const OneGoroutine = "one goroutine"

// SaysOneGoroutine reports whether a test leaves itself out as OneGoroutine.
func SaysOneGoroutine(test *ast.FuncDecl) (says bool) {
	ast.Inspect(test, func(node ast.Node) bool {
		text, ok := node.(*ast.BasicLit)
		says = says || ok && text.Value == strconv.Quote(OneGoroutine)
		return !says
	})
	return says
}

// PackagesWithGoroutines returns the folders of tests that start goroutines or reach a package that does, in order:
// in others the race detector has nothing to find.
func PackagesWithGoroutines(files []*File) []string {
	started, imports, tested := map[string]bool{}, map[string][]string{}, map[string]bool{}
	for _, file := range files {
		folder := path.Dir(file.Path)
		started[folder] = started[folder] || StartsGoroutines(file.Syntax)
		tested[folder] = tested[folder] || strings.HasSuffix(file.Path, "_test.go")
		for _, imported := range file.Imports {
			imports[folder] = append(imports[folder], strings.TrimPrefix(imported, "gpuconf/"))
		}
	}
	reached := map[string]bool{}
	var reach func(folder string) bool
	reach = func(folder string) bool {
		if seen, ok := reached[folder]; ok {
			return seen
		}
		// On the way: packages do not import each other, but a test file may import its own folder.
		reached[folder] = false
		reached[folder] = started[folder] || slices.ContainsFunc(imports[folder], reach)
		return reached[folder]
	}
	var folders []string
	for folder := range tested {
		if tested[folder] && strings.Count(folder, "/") == 2 && reach(folder) {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	return folders
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
