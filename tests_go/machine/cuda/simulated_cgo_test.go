//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/drivertest"
	"gpuconf/tests_go/machine/fakecuda"
	"gpuconf/tests_go/machine/simulated"
)

// simulator is the path of the library that this process has loaded.
func simulator() string { return filepath.Join(os.Getenv(folderEnv), "libcuda.so.1") }

// cardsOf returns the cards of a specification.
func cardsOf(t testing.TB, text string, options simulated.Options) []cuda.SimulatedCard {
	t.Helper()
	spec := attempt.Get(models.ParseSpec(text))
	return simulated.Cards(spec, options)
}

func openSimulator(t testing.TB, cards []cuda.SimulatedCard, options cuda.SimulatedOptions) gpu.Driver {
	t.Helper()
	driver := attempt.Get(cuda.OpenSimulator(simulator(), cards, options))
	t.Cleanup(func() { require.NoError(t, driver.Close()) })
	return driver
}

// TestConformanceOfTheSimulator: while another machine is open and has work.
func TestConformanceOfTheSimulator(t *testing.T) {
	for _, row := range []struct {
		text    string
		options simulated.Options
	}{
		{"H100-80GB", simulated.Options{}},
		{"2xH100-80GB", simulated.Options{}},
		{"T4:64MiB", simulated.Options{}},
		{"K40,T4:256MiB,B200", simulated.Options{}},
		{"8xA100-40GB", simulated.Options{}},
		{"4xT4", simulated.Options{Visible: []int{3, 1}, UsedBytes: 1 << 30}},
		{"2xT4", simulated.Options{NoVMM: true, NoStreamMemOps: true}},
		{"2xT4", simulated.Options{NoManaged: true}},
		{"2xT4", simulated.Options{NoOversubscription: true}},
	} {
		t.Run(fmt.Sprint(row.text, row.options), func(t *testing.T) {
			cards := cardsOf(t, row.text, row.options)
			other := openSimulator(t, cardsOf(t, "L4", simulated.Options{}), cuda.SimulatedOptions{})
			require.NoError(t, other.ContextRetain(0))
			kept := attempt.Get(other.MemAlloc(0, 1<<20))
			require.NoError(t, other.MemsetD8(0, kept, 7, 1<<20))
			drivertest.TestDriver(t, func() (gpu.Driver, error) {
				return cuda.OpenSimulator(simulator(), cards,
					cuda.SimulatedOptions{})
			})
			content := make([]byte, 1<<20)
			require.NoError(t, other.MemcpyDtoH(0, content, kept))
			require.Equal(t, strings.Repeat("\x07", 1<<20), string(content))
			require.NoError(t, other.ContextRelease(0))
		})
	}
}

// TestSimulatedCardsAreAsDescribed, and free memory is predictable to the byte.
func TestSimulatedCardsAreAsDescribed(t *testing.T) {
	spec := attempt.Get(models.ParseSpec("GB10,K40,2xA100-40GB"))
	driver := openSimulator(t, simulated.Cards(spec, simulated.Options{UsedBytes: 1 << 30}), cuda.SimulatedOptions{})
	require.True(t, driver.HostVisible())
	devices := attempt.Get(driver.Devices())
	for i, device := range devices {
		require.Equal(t, spec.Devices()[i], device)
		require.NoError(t, driver.ContextRetain(i))
		addr := attempt.Get(driver.MemAlloc(i, 1000))
		free, total, err := driver.MemGetInfo(i)
		require.NoError(t, err)
		require.Equal(t, device.TotalBytes-1<<30-1024, free)
		require.Equal(t, device.TotalBytes, total)
		require.NoError(t, driver.MemFree(i, addr))
		require.NoError(t, driver.ContextRelease(i))
	}
}

// TestStaleSimulatedMemory stays readable until the machine closes, however it was freed.
func TestStaleSimulatedMemory(t *testing.T) {
	driver := openSimulator(t, cardsOf(t, "T4", simulated.Options{}), cuda.SimulatedOptions{})
	require.NoError(t, driver.ContextRetain(0))
	read := func(addr uint64) byte {
		number := uintptr(addr)
		return **(**byte)(unsafe.Pointer(&number))
	}
	const bytes = 4 << 20
	linear := attempt.Get(driver.MemAlloc(0, bytes))
	managed := attempt.Get(driver.MemAllocManaged(0, bytes))
	host := attempt.Get(driver.MemHostAlloc(0, bytes))
	reserved := attempt.Get(driver.MemAddressReserve(bytes, 0))
	handle := attempt.Get(driver.MemCreate(0, bytes))
	require.NoError(t, driver.MemMap(reserved, bytes, handle))
	require.NoError(t, driver.MemSetAccess(0, reserved, bytes))
	require.NoError(t, driver.MemsetD8(0, reserved, 7, bytes))
	require.Equal(t, byte(7), read(reserved))
	require.NoError(t, driver.MemUnmap(reserved, bytes))
	require.NoError(t, driver.MemRelease(handle))
	require.NoError(t, driver.MemAddressFree(reserved, bytes))
	require.NoError(t, driver.MemFree(0, linear))
	require.NoError(t, driver.MemFree(0, managed))
	require.NoError(t, driver.MemFreeHost(0, host.Addr))
	for _, addr := range []uint64{linear, managed, host.Addr, reserved} {
		require.Zero(t, read(addr+bytes-1))
	}
	again := attempt.Get(driver.MemAddressReserve(bytes, 0))
	require.Equal(t, reserved, again, "what is freed is used again")
	require.NoError(t, driver.ContextRelease(0))
}

// TestMachineOfTheProcess: the functions of the library are about it, and about the machine of the environment when it
// is closed.
func TestMachineOfTheProcess(t *testing.T) {
	configure(t, nil)
	driver := attempt.Get(cuda.OpenSimulator(simulator(), cardsOf(t, "3xT4", simulated.Options{}),
		cuda.SimulatedOptions{OfProcess: true}))
	names := func() (names []string) {
		plain := attempt.Get(cuda.Open())
		devices := attempt.Get(plain.Devices())
		require.NoError(t, plain.Close())
		for _, device := range devices {
			names = append(names, device.Name)
		}
		return names
	}
	require.Equal(t, []string{"Tesla T4", "Tesla T4", "Tesla T4"}, names())
	require.NoError(t, driver.Close())
	require.Equal(t, []string{"NVIDIA Fake 1GB"}, names())
}

// TestClosedMachinesLeaveNothing: no mapping, no descriptor, no thread.
func TestClosedMachinesLeaveNothing(t *testing.T) {
	cards := cardsOf(t, "2xT4", simulated.Options{})
	once := func() {
		driver := attempt.Get(cuda.OpenSimulator(simulator(), cards, cuda.SimulatedOptions{}))
		require.NoError(t, driver.ContextRetain(0))
		addr := attempt.Get(driver.MemAlloc(0, 8<<20))
		require.NoError(t, driver.MemsetD8(0, addr, 1, 8<<20))
		attempt.Get(driver.MemHostAlloc(0, 1<<20))
		attempt.Get(driver.MemCreate(0, 2<<20))
		attempt.Get(driver.StreamCreate(0, 0, 0))
		require.NoError(t, driver.Close())
	}
	resident := func() (pages int) {
		text := attempt.Get(os.ReadFile("/proc/self/statm"))
		var size int
		attempt.Get(fmt.Sscan(string(text), &size, &pages))
		return pages
	}
	// The least of several counts: the thread that looks after the host's memory opens files for a moment.
	files := func() int {
		least := math.MaxInt
		for range 20 {
			found := attempt.Get(os.ReadDir("/proc/self/fd"))
			least = min(least, len(found))
			time.Sleep(time.Millisecond)
		}
		return least
	}
	for range 50 {
		once()
	}
	pages, open := resident(), files()
	for range 300 {
		once()
	}
	require.Equal(t, open, files())
	require.Less(t, resident(), pages+16<<20/os.Getpagesize(), "each machine had written 8 MiB")
}

// TestUntrustedSimulator: what another user could have written is not loaded.
func TestUntrustedSimulator(t *testing.T) {
	content := attempt.Get(os.ReadFile(simulator()))
	refuse := func(path string, code status.Code, texts ...string) {
		t.Helper()
		_, err := cuda.OpenSimulator(path, nil, cuda.SimulatedOptions{})
		require.Equal(t, code, status.CodeOf(err), "%v", err)
		for _, text := range texts {
			require.ErrorContains(t, err, text)
		}
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "libcuda.so.1")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NoError(t, os.Chmod(path, 0o606))
	refuse(path, status.FailedPrecondition, path, "can be written by every user")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Chmod(folder, 0o707))
	refuse(path, status.FailedPrecondition, folder+" can be written by every user")
	require.NoError(t, os.Chmod(folder, 0o700))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(path, 12345, 12345))
		refuse(path, status.FailedPrecondition, path, "belongs to another user")
		require.NoError(t, os.Chown(path, 0, 12345))
		require.NoError(t, os.Chmod(path, 0o660))
		refuse(path, status.FailedPrecondition, path, "can be written by its group")
		require.NoError(t, os.Chmod(path, 0o600))
	}
	refuse(path, status.FailedPrecondition, "this process has loaded "+simulator(), "a process has one driver")
	refuse("libcuda.so.1", status.InvalidArgument, "not absolute")
	refuse(filepath.Join(folder, "none"), status.Unavailable, "none", "Install gpuconf again")
	require.NoError(t, os.Symlink(simulator(), filepath.Join(folder, "link")))
	driver := attempt.Get(cuda.OpenSimulator(filepath.Join(folder, "link"), nil, cuda.SimulatedOptions{}))
	require.NoError(t, driver.Close())
}

// TestDriverThatIsNoSimulator, in a child, where it is the only one.
func TestDriverThatIsNoSimulator(t *testing.T) {
	folder := build(t, fakecuda.Options{Missing: []string{"gpuconf_simulator"}})
	child := exec.Command(os.Args[0], "-test.run=^TestInChildNoSimulator$", "-test.v")
	child.Env = fakecuda.Environ(folder, childEnv+"=tests", folderEnv+"="+folder)
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

func TestInChildNoSimulator(t *testing.T) {
	if os.Getenv(childEnv) != "tests" {
		t.Skip("TestDriverThatIsNoSimulator runs it")
	}
	_, err := cuda.OpenSimulator(simulator(), nil, cuda.SimulatedOptions{})
	require.Equal(t, status.FailedPrecondition, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "is not the simulator of this gpuconf")
}
