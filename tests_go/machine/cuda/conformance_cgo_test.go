//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/drivertest"
	"gpuconf/tests_go/machine/fakecuda"
)

func TestConformance(t *testing.T) {
	for name, environ := range map[string]map[string]string{
		"one GPU":                   {},
		"two GPUs":                  {"FAKECUDA_GPUS": "2"},
		"two GPUs in other order":   {"FAKECUDA_GPUS": "4", "CUDA_VISIBLE_DEVICES": "3,1"},
		"without virtual memory":    {"FAKECUDA_WITHOUT": "vmm"},
		"without stream words":      {"FAKECUDA_GPUS": "2", "FAKECUDA_WITHOUT": "memops"},
		"without managed memory":    {"FAKECUDA_WITHOUT": "managed"},
		"managed memory must fit":   {"FAKECUDA_WITHOUT": "concurrent"},
		"an old card":               {"GPUCONF_SIMULATE": "GTX1080Ti:1GiB"},
		"a card without priorities": {"FAKECUDA_WITHOUT": "priorities,vmm,memops,concurrent"},
	} {
		t.Run(name, func(t *testing.T) {
			configure(t, environ)
			drivertest.TestDriver(t, openCapturer)
		})
	}
}

// TestConformanceWhereOthersKeepTheContext: as in a program that also uses PyTorch.
func TestConformanceWhereOthersKeepTheContext(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_GPUS": "2"})
	first := open(t) // starts the driver for the other library
	for ordinal := range 2 {
		attempt.Get(fake.Retain(ordinal))
	}
	drivertest.TestDriver(t, cuda.Open)
	for ordinal := range 2 {
		require.NoError(t, fake.Release(ordinal))
	}
	require.NoError(t, first.Close())
}

// TestConformanceOfThisMachine uses the machine's own driver, in a process without the fake one.
func TestConformanceOfThisMachine(t *testing.T) {
	// Read only so that `go test` knows that a cached result depends on them.
	_, _ = os.Getenv("LD_LIBRARY_PATH"), os.Getenv("CUDA_VISIBLE_DEVICES")
	child := exec.Command(os.Args[0], "-test.run=^TestInChildOnThisMachine$", "-test.v")
	child.Env = fakecuda.Environ(os.Getenv(machinePathEnv), childEnv+"=tests")
	if visible, ok := os.LookupEnv(machineVisibleEnv); ok {
		child.Env = append(child.Env, "CUDA_VISIBLE_DEVICES="+visible)
	}
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	if strings.Contains(string(output), "--- SKIP: TestInChildOnThisMachine (") {
		t.Skipf("%s", output)
	}
	t.Logf("%s", output)
}

func TestInChildOnThisMachine(t *testing.T) {
	if os.Getenv(childEnv) != "tests" {
		t.Skip("TestConformanceOfThisMachine runs it")
	}
	driver, err := cuda.Open()
	if status.CodeOf(err) == status.Unavailable && strings.HasPrefix(err.Error(), "CUDA is not available") {
		t.Skip(err)
	}
	require.NoError(t, err)
	devices := attempt.Get(driver.Devices())
	require.NoError(t, driver.Close())
	if len(devices) == 0 {
		t.Skip("no GPU is visible")
	}
	for _, device := range devices {
		t.Logf("%+v", device)
	}
	drivertest.TestDriver(t, func() (gpu.Driver, error) { return cuda.Open() })
}
