package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// floors are the packages from the bottom up. A package imports only from floors below its own, never from a sibling.
// Below gocore a package is named after its room and folder. The folders of C are among them, for their includes.
// "pybind/..." is everything below pybind.
var floors = []string{
	0:  "base/status base/invariants base/human base/pickle",
	1:  "base/offheap base/holder",
	2:  "base/trace",
	3:  "machine/gpu machine/devname machine/visible machine/meminfo",
	4:  "machine/models machine/cuda machine/nvml machine/cublas machine/host machine/blas",
	5:  "pool/figures pool/chunks pool/suballoc",
	6:  "pool/bfc",
	7:  "lease/ledger lease/budget",
	8:  "lease/guard lease/guard/preload lease/turns",
	9:  "plan/caching plan/timeline plan/cover plan/cover/mapped",
	10: "plan/plan plan/rewind",
	11: "tf/config tf/graph",
	12: "devices/devmgr",
	13: "devices/placement",
	14: "sim/...",
	15: "pybind pybind/...",
}

// closed are imports that point downwards but are forbidden anyway, with the alternative.
var closed = []struct{ from, to, instead string }{
	{"pool/... plan/caching tf/config", "machine/...",
		"it sees no GPU: take numbers, or declare a small interface on numbers, and let devmgr connect the two"},
	{"devices/... tf/graph plan/plan",
		"machine/cuda machine/nvml machine/cublas machine/host machine/blas",
		"take a gpu.Driver or a gpu.Compute and let pybind/process pick the implementation"},
}

// outside are packages outside the module and the standard library, and the packages that may import them. A trailing
// "..." stands for everything below.
var outside = []struct{ by, path string }{
	{"base/offheap machine/host lease/ledger pybind/process", "golang.org/x/sys/unix"},
	{"machine/nvml", "github.com/NVIDIA/go-nvml/..."},
	{"machine/host", "gonum.org/v1/gonum/..."},
	{"pybind", "github.com/go-python/gopy/gopyh"},
}

// pure are the packages whose results depend only on their arguments.
const pure = "base/status base/invariants base/human machine/gpu machine/devname machine/visible tf/config"

// worldly are the standard packages that a pure package must not import.
const worldly = "os os/... time sync sync/... runtime runtime/... syscall unsafe net net/... math/rand " +
	"math/rand/... crypto/rand C"

// floorOf returns the floor of a package, or -1.
func floorOf(pkg string) int {
	return slices.IndexFunc(floors, func(floor string) bool { return listed(floor, pkg) })
}

// listed reports whether a list of names and "name/..." patterns holds name.
func listed(list, name string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(entry string) bool {
		prefix, below := strings.CutSuffix(entry, "...")
		return entry == name || below && strings.HasPrefix(name, prefix)
	})
}

// CheckImports checks a file's imports against the floors and returns the violations.
func CheckImports(f *File) (broken []string) {
	pkg := f.Package()
	if floorOf(pkg) < 0 {
		return []string{fmt.Sprintf("%s: package %s has no floor: give it one in tests_go/arch/floors.go", f.Path, pkg)}
	}
	for _, imported := range slices.Sorted(maps.Values(f.Imports)) {
		if remedy := checkArrow(pkg, imported); remedy != "" {
			broken = append(broken, fmt.Sprintf("%s: %s -> %s: %s", f.Path, pkg, imported, remedy))
		}
	}
	return broken
}

// checkArrow returns what to do about an import, or "" if it is allowed.
func checkArrow(pkg, imported string) string {
	local, inModule := strings.CutPrefix(imported, "gpuconf/")
	switch {
	case inModule:
		return checkLocal(pkg, strings.TrimPrefix(local, "gocore/"))
	case listed(pure, pkg) && listed(worldly, imported):
		return "it is pure: take what it needs as an argument"
	case imported == "C" || !strings.Contains(strings.Split(imported, "/")[0], "."):
		return "" // the standard library; cgo has its own rule
	}
	for _, allowed := range outside {
		if listed(allowed.by, pkg) && listed(allowed.path, imported) {
			return ""
		}
	}
	return "a dependency from outside: do without, or list it in tests_go/arch/floors.go with the reason in the commit"
}

func checkLocal(pkg, imported string) string {
	from, to := floorOf(pkg), floorOf(imported)
	if to < 0 {
		return "not a package that others import: give it a floor in tests_go/arch/floors.go, or move what you need " +
			"below"
	}
	for _, arrow := range closed {
		if listed(arrow.from, pkg) && listed(arrow.to, imported) {
			return arrow.instead
		}
	}
	switch {
	case from > to || from == to && listed(floors[len(floors)-1], pkg):
		return "" // within pybind, Go's own ban on cycles is enough
	case from == to:
		return fmt.Sprintf("both are on floor %d, and siblings never import each other: let the floor above connect "+
			"them "+
			"through an interface of the consumer's, or move what both need to a floor below", from)
	}
	return fmt.Sprintf("upwards from floor %d to floor %d: declare an interface down here and let %s implement it",
		from, to, imported)
}
