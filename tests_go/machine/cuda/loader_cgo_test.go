//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/machine/fakecuda"
)

func requireUnavailable(t *testing.T, report opened, texts ...string) {
	t.Helper()
	require.Equal(t, "UNAVAILABLE", report.Code, report.Error)
	for _, text := range texts {
		require.Contains(t, report.Error, text)
	}
}

func TestNoLibrary(t *testing.T) {
	if exec.Command("sh", "-c",
		"ldconfig -p | grep -q libcuda.so.1 || test -e /usr/lib/wsl/lib/libcuda.so.1").Run() == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	requireUnavailable(t, openIn(t, t.TempDir()),
		"libcuda.so.1: cannot open shared object file", "/usr/lib/wsl/lib/libcuda.so.1", "comes with the NVIDIA driver")
}

func TestBrokenLibrary(t *testing.T) {
	if exec.Command("sh", "-c",
		"ldconfig -p | grep -q libcuda.so.1 || test -e /usr/lib/wsl/lib/libcuda.so.1").Run() == nil {
		t.Skip("this machine has an NVIDIA driver, which the loader finds behind the broken one")
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "libcuda.so.1"),
		[]byte("no library, but long enough to be read as one: "+
			"an ELF header has 64 bytes, and these are more than that"), 0o600))
	requireUnavailable(t, openIn(t, folder), "invalid ELF header")
}

func TestLibraryThatIsNoDriver(t *testing.T) {
	folder := t.TempDir()
	source := filepath.Join(folder, "other.c")
	require.NoError(t, os.WriteFile(source, []byte("int other(void) { return 0; }\n"), 0o600))
	output, err := exec.Command("cc", "-shared", "-fPIC", "-o", filepath.Join(folder, "libcuda.so.1"),
		source).CombinedOutput()
	require.NoError(t, err, "%s", output)
	requireUnavailable(t, openIn(t, folder), "libcuda.so.1 is not a CUDA driver", "cuDriverGetVersion")
}

func TestDriverThatDoesNotTellItsVersion(t *testing.T) {
	requireUnavailable(t, openIn(t, os.Getenv(folderEnv), "FAKECUDA_FAIL=cuDriverGetVersion:0:34"),
		"libcuda.so.1 does not report its version", "stub library for linking")
}

func TestRequiredFunctionIsMissing(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	for _, name := range []string{"cuMemCreate", "cuMemAlloc_v2", "cuDevicePrimaryCtxRelease_v2"} {
		t.Run(name, func(t *testing.T) {
			requireUnavailable(t, openIn(t, build(t, fakecuda.Options{Missing: []string{name}})), name, "CUDA 12.4",
				"since CUDA 11.0")
		})
	}
}

func TestOptionalFunctionIsMissing(t *testing.T) {
	report := openIn(t,
		build(t, fakecuda.Options{Missing: []string{"cuStreamGetId", "cuStreamWriteValue64_v2",
			"cuGetProcAddress_v2"}}))
	require.Empty(t, report.Error)
	require.Equal(t, "UNIMPLEMENTED", report.StreamIDCode)
	require.Equal(t, "cuStreamGetId needs an NVIDIA driver for CUDA 12.0 or newer, but this driver is for CUDA 12.4: "+
		"CUDA_ERROR_NOT_SUPPORTED (801)", report.StreamIDError)
	require.Equal(t, "UNIMPLEMENTED", report.WriteCode)
	require.False(t, report.Devices[0].StreamMemOps)
	require.True(t, report.Devices[0].VMM)
}

// TestVersions goes through the versions at which a function of the table appeared, and those before.
func TestVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	for _, row := range []struct {
		version               int
		opens, streamID, word bool
	}{
		{10020, false, false, false},
		{11000, true, false, false},
		{11040, true, false, false},
		{11070, true, false, true},
		{12000, true, true, true},
		{13010, true, true, true},
	} {
		t.Run(fmt.Sprint(row.version), func(t *testing.T) {
			report := openIn(t, build(t, fakecuda.Options{Version: row.version}))
			if !row.opens {
				requireUnavailable(t, report, "the NVIDIA driver is too old", "CUDA 10.2", "11.0 or newer", "Update")
				return
			}
			require.Empty(t, report.Error)
			require.Len(t, report.Devices, 1)
			require.Equal(t, row.streamID, report.StreamIDError == "", report.StreamIDError)
			require.Equal(t, row.word, report.WriteError == "", report.WriteError)
			require.Equal(t, row.word, report.Devices[0].StreamMemOps)
			if !row.word {
				require.Contains(t, report.WriteError, "cuStreamWriteValue64_v2 needs an NVIDIA driver for CUDA "+
					"11.7 or newer, but this driver is for "+
					fmt.Sprintf("CUDA %d.%d", row.version/1000, row.version%1000/10))
			}
		})
	}
}

func TestAllSymbolsBoundAtOnce(t *testing.T) {
	report := openIn(t, os.Getenv(folderEnv), "LD_BIND_NOW=1", "FAKECUDA_GPUS=2")
	require.Empty(t, report.Error)
	require.Len(t, report.Devices, 2)
	if exec.Command("sh", "-c", "ldconfig -p | grep -q libcuda.so.1").Run() != nil {
		requireUnavailable(t, openIn(t, t.TempDir(), "LD_BIND_NOW=1"), "CUDA is not available")
	}
}

func TestDriverThatDoesNotStart(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	for result, hint := range map[int]string{
		3: "forked", 34: "stubs", 46: "nvidia-smi", 101: "cannot be used", 802: "fabric", 803: "restart the machine",
		804: "cuda-compat",
		999: "nvidia_uvm", 555: "CUDA_ERROR (555)",
	} {
		t.Run(fmt.Sprint(result), func(t *testing.T) {
			report := openIn(t, os.Getenv(folderEnv), fmt.Sprintf("FAKECUDA_FAIL=cuInit:0:%d", result))
			requireUnavailable(t, report, "the CUDA driver failed to start (cuInit)", fmt.Sprintf("(%d)", result), hint)
		})
	}
}

func TestNoGPUIsAnEmptyList(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	for name, environ := range map[string]string{
		"no GPU":             "FAKECUDA_FAIL=cuInit:0:100",
		"all hidden":         "CUDA_VISIBLE_DEVICES=",
		"all hidden by -1":   "CUDA_VISIBLE_DEVICES=-1",
		"none when counting": "FAKECUDA_FAIL=cuDeviceGetCount:0:100",
	} {
		t.Run(name, func(t *testing.T) {
			report := openIn(t, os.Getenv(folderEnv), environ)
			require.Empty(t, report.Error)
			require.Empty(t, report.Devices)
		})
	}
}
