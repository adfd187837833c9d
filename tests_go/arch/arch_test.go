package arch_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/arch"
)

// root is the module's folder.
func root(t *testing.T) string {
	folder, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		parent := filepath.Dir(folder)
		require.NotEqual(t, folder, parent, "no go.mod above the test")
		folder = parent
	}
}

func tree(t *testing.T, folders ...string) []*arch.File {
	files, err := arch.ReadTree(root(t), folders...)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// check runs a rule on every file and fails with all violations, one per line.
func check(t *testing.T, files []*arch.File, rule func(*arch.File) []string) {
	var broken []string
	for _, file := range files {
		broken = append(broken, rule(file)...)
	}
	if len(broken) > 0 {
		require.Fail(t, "\n"+strings.Join(broken, "\n"))
	}
}

func TestImportsPointDownwards(t *testing.T) {
	check(t, tree(t, "gocore", "pybind"), arch.CheckImports)
}

func TestIncludesPointDownwards(t *testing.T) {
	for _, folder := range []string{"gocore", "pybind"} {
		broken, err := arch.CheckIncludes(root(t), folder)
		require.NoError(t, err)
		require.Empty(t, broken)
	}
}

func TestIncludesBite(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "gocore/pool/bfc"), 0o700))
	source := "#include \"fine.h\"\n#include \"../../sim/cuda/driver.h\"\n#include \"../../base/trace/x.h\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "gocore/pool/bfc/x.c"), []byte(source), 0o600))
	broken, err := arch.CheckIncludes(folder, "gocore")
	require.NoError(t, err)
	require.Equal(t, []string{"gocore/pool/bfc/x.c includes ../../sim/cuda/driver.h: pool/bfc is on floor 6, and " +
		"sim/cuda on floor 14"}, broken)
}

// TestColumnsOfCBite: comments count, generated files do not.
func TestColumnsOfCBite(t *testing.T) {
	folder := t.TempDir()
	long := "/* " + strings.Repeat("x", 120) + " */\n"
	for name, text := range map[string]string{".clang-format-ignore": "gocore/made.h\n", "gocore/made.h": long,
		"gocore/x.c": "int x;\n" + long} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	broken, err := arch.CheckColumnsOfC(folder, "gocore")
	require.NoError(t, err)
	require.Equal(t, []string{"gocore/x.c:2: 126 columns: break the line, at most 120"}, broken)
}

func TestSourceKeepsTheRules(t *testing.T) {
	check(t, tree(t, "gocore", "pybind"), arch.CheckSource)
}

func TestSourceIsFormatted(t *testing.T) {
	check(t, tree(t, "gocore", "pybind", "tests_go"), arch.CheckFormat)
}

func TestLinesAreShort(t *testing.T) {
	check(t, tree(t, "gocore", "pybind", "tests_go", "benchmarks"), arch.CheckColumns)
	broken, err := arch.CheckColumnsOfC(root(t), "gocore", "pybind", "tests_go", "tests_py", "benchmarks", "examples",
		"python")
	require.NoError(t, err)
	require.Empty(t, broken)
}

func TestVariablesHaveNouns(t *testing.T) {
	check(t, tree(t, "gocore", "pybind"), arch.CheckNames)
}

func TestExportedFieldsHaveComments(t *testing.T) {
	check(t, tree(t, "gocore", "pybind"), arch.CheckFields)
}

// TestRaceRunsWhatHasGoroutines: `make race` runs each package that starts goroutines, or whose tests do, and no other:
// there the race detector has nothing to find.
func TestRaceRunsWhatHasGoroutines(t *testing.T) {
	folders := arch.PackagesWithGoroutines(tree(t, "gocore", "pybind", "tests_go"))
	for _, folder := range []string{"lease/ledger", "devices/devmgr", "machine/simulated", "pybind/process"} {
		require.Contains(t, folders, "tests_go/"+folder)
	}
	for _, folder := range []string{"tf/config", "machine/devname", "base/human", "machine/computetest"} {
		require.NotContains(t, folders, "tests_go/"+folder)
	}
}

// TestRaceLeavesOutOnlyWhatHasOneGoroutine: `make race` leaves out long tests in which the race detector has nothing to
// find.
func TestRaceLeavesOutOnlyWhatHasOneGoroutine(t *testing.T) {
	files := tree(t, "tests_go")
	files = slices.DeleteFunc(files, func(f *arch.File) bool { // its goroutines only wait for the C compiler
		return f.Path == "tests_go/machine/compiled/objects.go"
	})
	tests := 0
	for _, file := range files {
		for _, declared := range file.Syntax.Decls {
			test, ok := declared.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(test.Name.Name, "Test") || !arch.SaysOneGoroutine(test) {
				continue
			}
			tests++
			folder, name := path.Dir(file.Path), test.Name.Name
			starter, _ := arch.ReachesGoroutines(files, folder, name)
			require.Empty(t, starter, "%s in %s reaches it, and make race leaves %[1]s out", name, folder)
		}
	}
	require.Greater(t, tests, 10)
	for _, name := range []string{"TestResetBesideEverything", "TestEveryHandOver"} {
		starter, known := arch.ReachesGoroutines(files, "tests_go/devices/devmgr", name)
		require.NotEmpty(t, starter)
		require.True(t, known)
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	comments := map[string]string{}
	for _, file := range tree(t, "gocore", "pybind") {
		comments[file.Package()] += file.Syntax.Doc.Text()
	}
	for pkg, comment := range comments {
		require.NotEmpty(t, comment, "%s has no package comment: begin its doc.go with the idea, states and invariants",
			pkg)
	}
}

func TestEveryPackageHasTests(t *testing.T) {
	for _, file := range tree(t, "gocore", "pybind") {
		folder := file.Package()
		if folder == "pybind" {
			folder = "pybind/pybind"
		}
		tests, err := filepath.Glob(filepath.Join(root(t), "tests_go", folder, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, tests, "%s: its package has no tests in the folder of that name in tests_go", file.Path)
	}
}

// gpuconf needs cgo: variants of packages without it would be code that only tests build.
func TestNoFileIsForBuildsWithoutCgo(t *testing.T) {
	for _, file := range tree(t, "gocore", "pybind", "tests_go") {
		source, err := os.ReadFile(filepath.Join(root(t), file.Path))
		require.NoError(t, err)
		require.NotContains(t, string(source), "//go:build "+"!cgo", file.Path)
	}
}

// TestRulesBite gives each rule a violation to find, so that a rule that stops working is noticed.
func TestRulesBite(t *testing.T) {
	for _, row := range []struct {
		name, path, source string
		want               []string // one part of each complaint, in order
	}{
		{"a fine file", "gocore/pool/bfc/x.go",
			"package bfc\nimport \"gpuconf/gocore/base/status\"\nvar _ status.Code\n", nil},
		{"upwards", "gocore/machine/gpu/x.go", "package gpu\nimport _ \"gpuconf/gocore/devices/devmgr\"\n",
			[]string{"machine/gpu -> gpuconf/gocore/devices/devmgr: upwards from floor 3 to floor 12"}},
		{"siblings", "gocore/tf/graph/x.go", "package graph\nimport _ \"gpuconf/gocore/tf/config\"\n",
			[]string{"siblings never import each other"}},
		{"the allocator meets a GPU", "gocore/pool/bfc/x.go", "package bfc\nimport _ \"gpuconf/gocore/machine/gpu\"\n",
			[]string{"it sees no GPU"}},
		{"the manager picks a driver", "gocore/devices/devmgr/x.go",
			"package devmgr\nimport _ \"gpuconf/gocore/machine/cuda\"\n",
			[]string{"take a gpu.Driver"}},
		{"the executor picks its arithmetic", "gocore/tf/graph/x.go",
			"package graph\nimport _ \"gpuconf/gocore/machine/host\"\n",
			[]string{"or a gpu.Compute"}},
		{"arithmetic of the host's", "gocore/machine/host/x.go",
			"package host\nimport _ \"gonum.org/v1/gonum/blas/gonum\"\n",
			nil},
		{"tests imported", "gocore/lease/ledger/x.go", "package ledger\nimport _ \"gpuconf/tests_go/pool/traces\"\n",
			[]string{"not a package that others import"}},
		{"a package without a floor", "gocore/utils/x.go", "package utils\n", []string{"package utils has no floor"}},
		{"pybind imports all", "pybind/process/x.go",
			"package process\nimport (\n_ \"gpuconf/gocore/machine/cuda\"\n_ \"gpuconf/gocore/pool/bfc\"\n_ " +
				"\"gpuconf/pybind/cabi\"\n)\n", nil},
		{"nothing imports pybind", "gocore/devices/devmgr/x.go",
			"package devmgr\nimport _ \"gpuconf/pybind/process\"\n",
			[]string{"upwards from floor 12 to floor 15"}},
		{"a dependency", "gocore/tf/config/x.go", "package config\nimport _ \"github.com/x/y\"\n",
			[]string{"from outside"}},
		{"a dependency that is listed", "gocore/machine/nvml/x.go",
			"package nvml\nimport _ \"github.com/NVIDIA/go-nvml/pkg/nvml\"\n", nil},
		{"the world in a pure package", "gocore/tf/config/x.go", "package config\nimport \"time\"\nvar _ = time.Now\n",
			[]string{"it is pure"}},
		{"cgo outside", "gocore/lease/ledger/x.go", "package ledger\nimport \"C\"\n", []string{"cgo lives in"}},
		{"cgo inside", "gocore/machine/cuda/x.go", "package cuda\nimport \"C\"\n", nil},
		{"unsafe without a name", "gocore/lease/ledger/x.go",
			"package ledger\nimport \"unsafe\"\nvar _ unsafe.Pointer\n",
			[]string{"_unsafe.go"}},
		{"unsafe by name", "gocore/lease/ledger/x_unsafe.go",
			"package ledger\nimport \"unsafe\"\nvar _ unsafe.Pointer\n",
			nil},
		{"an internal folder", "gocore/pool/bfc/internal/x.go", "package internal\n",
			[]string{"has no floor", "use a plain folder"}},
		{"printing", "pybind/x.go", "package pybind\nimport \"fmt\"\nfunc f() { fmt.Println(1); println(2) }\n",
			[]string{"fmt.Println in pybind: Go never prints", "println in pybind"}},
		{"printing under another name", "gocore/pool/bfc/x.go", "package bfc\nimport p \"fmt\"\nfunc f() { " +
			"p.Printf(\"\") }\n",
			[]string{"fmt.Printf"}},
		{"a method that is called Print", "gocore/pool/bfc/x.go", "package bfc\nfunc f(fmt interface{ Print() }) { " +
			"fmt.Print() }\n", nil},
		{"logging", "gocore/devices/devmgr/x.go",
			"package devmgr\nimport _ \"log\"\n", []string{"log in devices/devmgr"}},
		{"the environment", "gocore/devices/devmgr/x.go", "package devmgr\nimport \"os\"\nvar _ = os.Getenv(\"X\")\n",
			[]string{"config.Env"}},
		{"sleeping", "gocore/devices/devmgr/x.go", "package devmgr\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
			[]string{"time.Sleep"}},
		{"panic", "gocore/pool/bfc/x.go", "package bfc\nfunc f() { panic(1) }\n", []string{"invariants.Check"}},
		{"panic where it belongs", "gocore/base/invariants/x.go", "package invariants\nfunc f() { panic(1) }\n", nil},
		{"recover", "gocore/pool/bfc/x.go", "package bfc\nfunc f() { _ = recover() }\n", []string{"the gate"}},
		{"a goroutine", "gocore/lease/ledger/x.go", "package ledger\nfunc f() { go f() }\n",
			[]string{"no goroutine below devmgr"}},
		{"a goroutine above", "gocore/devices/devmgr/x.go", "package devmgr\nfunc f() { go f() }\n", nil},
		{"init", "gocore/lease/ledger/x.go", "package ledger\nfunc init() {}\n", []string{"no work at import"}},
		{"a finalizer", "gocore/pool/bfc/x.go", "package bfc\nimport \"runtime\"\nvar _ = runtime.SetFinalizer\n",
			[]string{"explicit Close"}},
		{"a long line", "gocore/pool/bfc/x.go", "package bfc\n\n//" + strings.Repeat(" x", 60) + "\n",
			[]string{"gocore/pool/bfc/x.go:3: 122 columns: break the line, at most 120"}},
		{"a long line of tabs", "gocore/pool/bfc/x.go", "package bfc\n" + strings.Repeat("\t", 31) + "var x int\n",
			[]string{"133 columns"}},
		{"a long table, and a long raw string", "gocore/pool/bfc/x.go",
			"package bfc\n\n//\t" + strings.Repeat("x ", 60) +
				"x\nconst x = `" + strings.Repeat("x", 120) + "`\n", nil},
		{"a participle for six lines", "gocore/pool/bfc/x.go", "package bfc\nfunc f() int {\nfound := 1" +
			strings.Repeat("\n", 6) + "return found\n}\n",
			[]string{"gocore/pool/bfc/x.go:3: found lives for 6 lines: name it by what it is"}},
		{"a participle for five lines", "gocore/pool/bfc/x.go", "package bfc\nfunc f() int {\nfound := 1" +
			strings.Repeat("\n", 5) + "return found\n}\n", nil},
		{"a field without a comment", "gocore/pool/bfc/x.go",
			"package bfc\ntype T struct {\nA int // a\nB int\nc int\n}\n",
			[]string{"gocore/pool/bfc/x.go:4: T.B has no comment"}},
		{"unformatted", "gocore/pool/bfc/x.go", "package bfc\nvar  x int\n", []string{"gofmt"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			file, err := arch.ParseFile(row.path, []byte(row.source))
			require.NoError(t, err)
			broken := slices.Concat(arch.CheckImports(file), arch.CheckSource(file), arch.CheckColumns(file),
				arch.CheckNames(file), arch.CheckFields(file))
			if row.name == "unformatted" {
				broken = append(broken, arch.CheckFormat(file)...)
			}
			require.Len(t, broken, len(row.want), "%q", broken)
			for i, want := range row.want {
				require.Contains(t, broken[i], want)
				require.True(t, strings.HasPrefix(broken[i], row.path), broken[i])
			}
		})
	}
}
