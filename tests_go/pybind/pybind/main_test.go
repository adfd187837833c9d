//go:build cgo

package pybind_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
	"gpuconf/tests_go/machine/fakecuda"
	"gpuconf/tests_go/must"
)

// childEnv names a job to run in a separate process instead of the tests.
const childEnv = "GPUCONF_PYBIND_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		fakecuda.RunShipped(m)
	case "panics":
		fmt.Print(panics())
	}
}

const mib = int64(1) << 20

// onMachine makes spec the machine of a test ("" for none), and undoes it at the end. The test keeps its thread,
// because scopes belong to threads.
func onMachine(t *testing.T, spec string) {
	runtime.LockOSThread()
	must.OK(pybind.Simulate(spec))(t)
	t.Cleanup(func() {
		defer runtime.UnlockOSThread()
		cabi.SetScope(0, cabi.NoScope)
		must.OK(pybind.Simulate(""))(t, "a test has left something behind")
		must.OK(pybind.DrainNotices())(t)
	})
}

// enter makes the scope of that name the calling thread's, as Python's context manager does.
func enter(t *testing.T, name string) {
	number := must.OK(pybind.ScopeNumber(name))(t)
	cabi.SetScope(process.Shared().Generation(), number)
}

func environment(pairs ...string) string {
	env := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	text, _ := json.Marshal(env)
	return string(text)
}

// initialize lists the devices and builds the logical ones.
func initialize(t *testing.T, pairs ...string) {
	must.OK(pybind.Enumerate(environment(pairs...)))(t)
	must.OK(pybind.Initialize(environment(pairs...), "main.py:1 (test)"))(t)
}

// split gives GPU number of the physical list logical devices with limits in MiB.
func split(t *testing.T, number int, limits ...int) {
	var items []string
	for _, limit := range limits {
		items = append(items, fmt.Sprintf("[%d, null, null]", limit))
	}
	must.OK(pybind.SetLogicalConfiguration(int64(number+1), "", fmt.Sprintf(`[false, [%s]]`,
		strings.Join(items, ","))))(t)
}

type block struct {
	address, id, gpu int64
	noticed          bool
}

// take allocates as the extension module's C code does.
func take(number, nbytes int64) (block, error) {
	taken, err := cabi.Take(number, nbytes, process.Holder(), cabi.Scope)
	return block{int64(taken.Address), int64(taken.ID), int64(taken.GPU), taken.Noticed}, err
}

func allocate(t require.TestingT, number, nbytes int64) block {
	return must.OK(take(number, nbytes))(t)
}
func (b block) free(t require.TestingT) {
	require.NoError(t, cabi.GiveBack(uint64(b.address), uint64(b.id)))
}

// isKind reports whether a text is the name of a status.Code.
func isKind(text string) bool {
	for code := status.Unknown; code <= status.State; code++ {
		if code.String() == text {
			return true
		}
	}
	return false
}

// unmark splits an encoded error, as _core/native.py does, and fails on anything that would confuse it.
func unmark(err error) (kind, text string, complaint string) {
	parts := strings.Split(err.Error(), "\x1e")
	if len(parts) != 3 || parts[0] != "" {
		return "", "", fmt.Sprintf("not marked: %q", err)
	}
	kind, text = parts[1], parts[2]
	if !isKind(kind) || text == "" || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return "", "", fmt.Sprintf("badly marked: %q", err)
	}
	if process.Unmark(err) != text {
		return "", "", fmt.Sprintf("Unmark(%q) is %q", err, process.Unmark(err))
	}
	return kind, text, ""
}

func requireKind(t require.TestingT, want status.Code, err error) (text string) {
	require.Error(t, err)
	kind, text, complaint := unmark(err)
	require.Empty(t, complaint)
	require.Equal(t, want.String(), kind, "the kind of: %s", text)
	return text
}
