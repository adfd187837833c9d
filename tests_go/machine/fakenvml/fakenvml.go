// Package fakenvml builds the simulated NVML of gocore/sim/nvml, a libnvidia-ml.so.1 that reports the machine
// that a test describes, so that the code that calls NVIDIA's library can be tested without a GPU or a driver.
//
// libnvidia-ml/hooks.c documents the format of descriptions.
package fakenvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/machine/compiled"
)

// Build compiles the library into a folder for LD_LIBRARY_PATH. Defines are the preprocessor's: "FAKE_NVML_OLD".
func Build(t testing.TB, defines ...string) (folder string) {
	t.Helper()
	sources, err := compiled.Sources("gocore/sim/nvml", "gocore/lease/budget", "gocore/machine/models",
		"tests_go/machine/fakenvml/libnvidia-ml")
	require.NoError(t, err)
	objects, err := compiled.Objects(sources, []string{"-fPIC", "-fvisibility=hidden", "-O1", "-Wall", "-Werror",
		"-pthread", "-DGPUCONF_TEST_HOOKS"}, defines)
	require.NoError(t, err)
	folder = t.TempDir()
	args := append(compiled.Compiler(), "-shared", "-pthread", "-Wl,-soname,libnvidia-ml.so.1", "-o",
		filepath.Join(folder, "libnvidia-ml.so.1"))
	args = append(args, objects...)
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return folder
}

// Describe writes a machine's description to a file and returns its path, for FAKE_NVML.
func Describe(t testing.TB, machine string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "machine")
	require.NoError(t, os.WriteFile(path, []byte(machine), 0o600))
	return path
}
