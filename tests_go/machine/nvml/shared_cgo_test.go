//go:build cgo && linux

package nvml_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/fakenvml"
)

const exportsMap = "../../../pybind/exports.map"

// buildProbe builds a C library around gocore/machine/nvml, in the same way as the extension.
func buildProbe(t *testing.T) (path string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a library")
	}
	folder := t.TempDir()
	path = filepath.Join(folder, "probe.so")
	exports := attempt.Get(os.ReadFile(exportsMap))
	// the linker's flags are split at spaces, and the checkout's path may have one
	script := filepath.Join(folder, "exports.map")
	require.NoError(t, os.WriteFile(script, exports, 0o600))
	out, err := exec.Command("go", "build", "-buildmode=c-shared",
		"-ldflags=-s -w -extldflags '-Wl,--version-script="+script+"'",
		"-o", path, "./_probe").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// loadInPython loads a library as Python loads extensions, and calls it.
func loadInPython(t *testing.T, path string, environment ...string) (answer string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	command := exec.Command(python, "-c", `
import ctypes, os, sys
call = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW).gpuconf_probe
call.restype = ctypes.c_char_p
print(call().decode())
`, path)
	command.Env = append(cleanEnvironment(), environment...)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// TestALibraryLoadsWithoutNVML: an import of the extension works on a machine without NVIDIA software, and on one with
// it.
func TestALibraryLoadsWithoutNVML(t *testing.T) {
	probe := buildProbe(t)
	checkELF(t, probe)
	fake, machine := fakenvml.Build(t), fakenvml.Describe(t, oneCard)
	for _, bind := range []string{"LD_BIND_NOW=", "LD_BIND_NOW=1"} {
		require.Equal(t, "UNAVAILABLE", loadInPython(t, probe, bind))
		require.Equal(t, "<nil> NVIDIA H100 80GB HBM3", loadInPython(t, probe, bind, "LD_LIBRARY_PATH="+fake,
			"FAKE_NVML="+machine))
	}
}

// TestAnExecutableNeedsAndOffersNothingEither checks this test binary. If it exported NVML's functions, the driver's
// library would use them in place of its own.
func TestAnExecutableNeedsAndOffersNothingEither(t *testing.T) {
	checkELF(t, os.Args[0])
}

// checkELF inspects a library or an executable as the loader does.
func checkELF(t *testing.T, path string) {
	t.Helper()
	file := attempt.Get(elf.Open(path))
	defer func() { require.NoError(t, file.Close()) }()
	symbols := attempt.Get(file.DynamicSymbols())
	for _, symbol := range symbols {
		require.False(t, strings.HasPrefix(symbol.Name, "nvml"), "%s is needed, or offered", symbol.Name)
		require.False(t, strings.HasPrefix(symbol.Name, "trampolines"), "%s is offered", symbol.Name)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_GNU_STACK {
			require.Zero(t, segment.Flags&elf.PF_X, "an assembler file without a .note.GNU-stack makes every stack "+
				"executable")
		}
	}
	require.Empty(t, attempt.Get(file.DynValue(elf.DT_TEXTREL)), "code that the loader has to patch")
}
