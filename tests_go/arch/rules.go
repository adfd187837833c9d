package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"path"
	"strings"
)

// The floors up to which a ban applies.
var (
	belowDevmgr = floorOf("devices/devmgr") - 1
	everywhere  = len(floors) - 1
	gocore      = everywhere - 1
)

// cgo lists the packages that may contain `import "C"`.
const cgo = "machine/cuda machine/cublas machine/blas machine/models machine/nvml pybind/..."

// bans are the names that code must not use: a package's name ("os.Getenv"), a whole package ("log"), a builtin
// ("panic") or a statement ("go").
var bans = []struct {
	names   string
	upTo    int
	except  string
	instead string
}{
	{"fmt.Print fmt.Printf fmt.Println print println os.Stdout os.Stderr", everywhere, "",
		"Go never prints: return a notice, which Python logs"},
	{"log log/slog", everywhere, "", "Go never prints: return a notice, which Python logs"},
	{"os.Getenv os.LookupEnv os.Environ os.ExpandEnv os.Setenv os.Unsetenv", everywhere, "",
		"Python reads the environment and passes it as one map: take a config.Env"},
	{"os.Exit", everywhere, "", "return an error: the process is the user's"},
	{"time.Sleep time.After time.Tick", everywhere, "", "wait on a condition or a channel that ends early"},
	{"panic", everywhere, "base/invariants", "return a status error; for a broken invariant call invariants.Check"},
	{"recover", everywhere, "pybind pybind/...", "let it pass: the gate in pybind catches it and refuses further work"},
	{"go", belowDevmgr, "", "no goroutine below devmgr: make the call synchronous and let devmgr decide who waits"},
	{"init", gocore, "", "no work at import and no state beside values: make it in a constructor"},
	{"runtime.SetFinalizer runtime.AddCleanup", gocore, "", "release in an explicit Close"},
}

// CheckSource checks a file against the bans and returns the violations.
func CheckSource(f *File) (broken []string) {
	pkg := f.Package()
	complain := func(node ast.Node, what, instead string) {
		position := f.Set.Position(node.Pos())
		broken = append(broken, fmt.Sprintf("%s:%d: %s in %s: %s", f.Path, position.Line, what, pkg, instead))
	}
	if f.ImportsC() && !listed(cgo, pkg) {
		complain(f.Syntax.Name, `import "C"`, "cgo lives in "+cgo+": put the call behind an interface there")
	}
	if f.Imports["unsafe"] == "unsafe" && !f.ImportsC() && !strings.HasSuffix(f.Path, "_unsafe.go") {
		complain(f.Syntax.Name, `import "unsafe"`, "name the file ..._unsafe.go, and keep nothing else in it")
	}
	if strings.Contains("/"+path.Dir(f.Path)+"/", "/internal/") {
		complain(f.Syntax.Name, "internal/", "tests_go and pybind could not import it: use a plain folder")
	}
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		if name := nameOf(f, node); name != "" {
			for _, ban := range bans {
				if listed(ban.names, name) && floorOf(pkg) <= ban.upTo && !listed(ban.except, pkg) {
					complain(node, name, ban.instead)
				}
			}
		}
		return true
	})
	return broken
}

// nameOf returns the name of a node in bans, or "".
func nameOf(f *File, node ast.Node) string {
	switch n := node.(type) {
	case *ast.ImportSpec:
		return strings.Trim(n.Path.Value, `"`)
	case *ast.SelectorExpr:
		if pkg, ok := n.X.(*ast.Ident); ok && f.Imports[pkg.Name] != "" {
			return f.Imports[pkg.Name] + "." + n.Sel.Name
		}
	case *ast.CallExpr:
		if builtin, ok := n.Fun.(*ast.Ident); ok {
			return builtin.Name
		}
	case *ast.GoStmt:
		return "go"
	case *ast.FuncDecl:
		if n.Name.Name == "init" && n.Recv == nil {
			return "init"
		}
	}
	return ""
}

// CheckFormat returns a complaint if gofmt would change the file.
func CheckFormat(f *File) []string {
	formatted, err := format.Source(f.Source)
	if err != nil || !bytes.Equal(formatted, f.Source) {
		return []string{f.Path + ": gofmt would change it: run make fmt"}
	}
	return nil
}
