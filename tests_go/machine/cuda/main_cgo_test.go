//go:build cgo && linux && (amd64 || arm64)

// The tests run over the fake driver of tests_go/machine/fakecuda, which the loader finds as it finds the real one.
// What needs another library, or none, runs in a child.
package cuda_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/fakecuda"
)

const (
	folderEnv = "GPUCONF_CUDA_TEST_FOLDER" // location of the fake library
	childEnv  = "GPUCONF_CUDA_TEST_CHILD"  // job to run instead of the tests

	// The environment that locates and filters the machine's own driver, kept for its test.
	machinePathEnv    = "GPUCONF_CUDA_TEST_LD_LIBRARY_PATH"
	machineVisibleEnv = "GPUCONF_CUDA_TEST_CUDA_VISIBLE_DEVICES"
)

// fake controls the library that the tests run over.
var fake fakecuda.Driver

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "open":
		reportOpen()
		return
	case "tests":
		os.Exit(m.Run())
	}
	extra := []string{machinePathEnv + "=" + os.Getenv("LD_LIBRARY_PATH")}
	if visible, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		extra = append(extra, machineVisibleEnv+"="+visible)
	}
	fakecuda.RunOver(m, folderEnv, func(folder string) error { return fakecuda.Build(folder, fakecuda.Options{}) },
		attach, extra...)
}

func attach() (err error) {
	fake, err = fakecuda.Attach()
	return err
}

// configure restarts the fake driver with other GPUs, until the test ends.
func configure(t *testing.T, environ map[string]string) {
	t.Helper()
	for name, value := range environ {
		t.Setenv(name, value)
	}
	fake.Restart()
	t.Cleanup(func() {
		require.Empty(t, fake.Live(), "something was not given back")
		fake.Restart()
	})
}

// open opens a driver until the test ends.
func open(t *testing.T) gpu.Driver {
	t.Helper()
	driver := attempt.Get(cuda.Open())
	t.Cleanup(func() { require.NoError(t, driver.Close()) })
	return driver
}

// opened is a child's report about cuda.Open and the two calls that a driver may lack.
type opened struct {
	Code, Error           string
	Devices               []gpu.Device
	StreamIDCode          string
	StreamIDError         string
	WriteCode, WriteError string
}

func reportOpen() {
	var report opened
	driver, err := cuda.Open()
	if err != nil {
		report.Code, report.Error = status.CodeOf(err).String(), err.Error()
	} else {
		report.Devices = attempt.Get(driver.Devices())
		if len(report.Devices) > 0 {
			tryOptional(driver, &report)
		}
		attempt.Do(driver.Close())
	}
	attempt.Do(json.NewEncoder(os.Stdout).Encode(report))
}

func tryOptional(driver gpu.Driver, report *opened) {
	attempt.Do(driver.ContextRetain(0))
	if _, err := driver.StreamGetID(0, gpu.StreamNull); err != nil {
		report.StreamIDCode, report.StreamIDError = status.CodeOf(err).String(), err.Error()
	}
	word := attempt.Get(driver.MemHostAlloc(0, 8))
	if err := driver.StreamWriteValue64(0, gpu.StreamNull, word.Addr, 1); err != nil {
		report.WriteCode, report.WriteError = status.CodeOf(err).String(), err.Error()
	}
	attempt.Do(driver.StreamSynchronize(0, gpu.StreamNull))
	if report.WriteError == "" && word.Words[0] != 1 {
		panic(fmt.Sprint("the stream wrote ", word.Words[0]))
	}
	attempt.Do(driver.ContextRelease(0))
}

// openIn opens the driver in a child whose loader searches folder.
func openIn(t *testing.T, folder string, environ ...string) opened {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = fakecuda.Environ(folder, append(environ, childEnv+"=open")...)
	child.Stderr = os.Stderr
	output, err := child.Output()
	require.NoError(t, err, "%s", output)
	var report opened
	require.NoError(t, json.Unmarshal(output, &report), "%s", output)
	return report
}

// build compiles a library for one test.
func build(t *testing.T, options fakecuda.Options) (folder string) {
	t.Helper()
	folder = t.TempDir()
	require.NoError(t, fakecuda.Build(folder, options))
	return folder
}
