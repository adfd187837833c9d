// Package fakenvml builds the simulated NVML of pybind/simulator/nvml, a libnvidia-ml.so.1 that reports the machine that a test describes, so that the code that calls
// NVIDIA's library can be tested without a GPU or a driver.
//
// describe.c documents the format of descriptions.
package fakenvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources returns the files of the simulated NVML.
func sources(t testing.TB) (files []string) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..")
	for _, folder := range []string{"pybind/simulator/nvml", "pybind/budget", "gocore/models"} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.c"))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		files = append(files, found...)
	}
	return files
}

// Build compiles the library into a folder for LD_LIBRARY_PATH. Defines are the preprocessor's: "FAKE_NVML_OLD".
func Build(t testing.TB, defines ...string) (folder string) {
	t.Helper()
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	folder = t.TempDir()
	args := []string{"-shared", "-fPIC", "-fvisibility=hidden", "-O1", "-Wall", "-Werror", "-pthread", "-Wl,-soname,libnvidia-ml.so.1",
		"-o", filepath.Join(folder, "libnvidia-ml.so.1")}
	args = append(args, sources(t)...)
	for _, define := range defines {
		args = append(args, "-D"+define)
	}
	out, err := exec.Command(compiler, args...).CombinedOutput()
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
