package simulated_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
)

// failing makes calls of one kind and returns which of them failed.
func failing(t *testing.T, asked ...faults.Fault) (failed []int, injector *faults.Injector) {
	t.Helper()
	injector = faults.NewInjector(retained(t, "T4", simulated.Options{}), asked...)
	for i := range 8 {
		addr, err := injector.MemAlloc(0, mib)
		if err != nil {
			require.ErrorContains(t, err, "injected into MemAlloc")
			failed = append(failed, 2*i)
			continue
		}
		if injector.MemsetD8(0, addr, 1, mib) != nil {
			failed = append(failed, 2*i+1)
		}
	}
	return failed, injector
}

func TestFaults(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault faults.Fault
		want  []int // calls by number: MemAlloc is even, MemsetD8 odd
	}{
		{"the first call", faults.OnIndex(0, gpu.ErrorOutOfMemory), []int{0}},
		{"a later call", faults.OnIndex(5, gpu.ErrorUnknown), []int{5}},
		{"no call", faults.OnIndex(100, gpu.ErrorUnknown), nil},
		{"the third fill", faults.OnOp("MemsetD8", 2, gpu.ErrorUnknown), []int{5}},
		{"the first allocation", faults.OnOp("MemAlloc", 0, gpu.ErrorOutOfMemory), []int{0}},
		{"another method", faults.OnOp("MemFree", 0, gpu.ErrorUnknown), nil},
		{"after three allocations", faults.AfterBytes(3*mib, gpu.ErrorOutOfMemory), []int{6, 8, 10, 12, 14}},
		{"in the middle of an allocation", faults.AfterBytes(3*mib-1, gpu.ErrorOutOfMemory),
			[]int{4, 6, 8, 10, 12, 14}},
		{"no byte at all", faults.AfterBytes(0, gpu.ErrorOutOfMemory), []int{0, 2, 4, 6, 8, 10, 12, 14}},
		{"never", faults.Seeded(0, 1, gpu.ErrorUnknown), nil},
		{"always", faults.Seeded(1, 1, gpu.ErrorUnknown), []int{0, 2, 4, 6, 8, 10, 12, 14}},
	} {
		t.Run(row.name, func(t *testing.T) {
			failed, _ := failing(t, row.fault)
			require.Equal(t, row.want, failed)
		})
	}
}

func TestSeededFaultsRepeat(t *testing.T) {
	first, _ := failing(t, faults.Seeded(0.5, 42, gpu.ErrorUnknown))
	second, _ := failing(t, faults.Seeded(0.5, 42, gpu.ErrorUnknown))
	require.Equal(t, first, second)
	require.NotEmpty(t, first)
}

func TestFaultsCarryTheirResult(t *testing.T) {
	injector := faults.NewInjector(retained(t, "T4", simulated.Options{}), faults.OnIndex(0, gpu.ErrorSystemNotReady))
	_, err := injector.Devices()
	require.ErrorIs(t, err, gpu.ErrorSystemNotReady)
	require.EqualError(t, err, "injected into Devices, call 0: CUDA_ERROR_SYSTEM_NOT_READY (802)")
	_, err = injector.Devices()
	require.NoError(t, err, "the next call is another one")
}

func TestFaultsCanBeReplaced(t *testing.T) {
	injector := faults.NewInjector(retained(t, "T4", simulated.Options{}), faults.Seeded(1, 1, gpu.ErrorUnknown))
	_, err := injector.Devices()
	require.ErrorIs(t, err, gpu.ErrorUnknown)
	injector.SetFaults()
	attempt.Get(injector.Devices())
	injector.SetFaults(faults.OnIndex(9, gpu.ErrorUnknown), faults.OnIndex(2, gpu.ErrorNotPermitted))
	_, err = injector.Devices()
	require.ErrorIs(t, err, gpu.ErrorNotPermitted, "the counts went on")
}

func TestFailedCallsDoNotReachTheDriver(t *testing.T) {
	m := newMachine(t, "T4", simulated.Options{})
	injector := faults.NewInjector(m, faults.OnOp("ContextRetain", 0, gpu.ErrorUnknown))
	require.Error(t, injector.ContextRetain(0))
	_, _, err := m.MemGetInfo(0)
	require.ErrorIs(t, err, gpu.ErrorInvalidContext)
}

func TestCallsAreCounted(t *testing.T) {
	injector := faults.NewInjector(newMachine(t, "2xT4", simulated.Options{}))
	require.NoError(t, useTwoDevices(injector))
	require.Equal(t, map[string]int{
		"Devices": 1, "ContextRetain": 2, "MemGetInfo": 2, "MemAlloc": 4, "MemsetD8": 4, "MemcpyHtoD": 4,
		"MemcpyDtoH": 4, "MemFree": 4,
		"ContextRelease": 2,
	}, injector.CallsOf())
	require.Equal(t, 27, injector.Calls())
	injector.CallsOf()["Devices"] = 100
	require.Equal(t, 1, injector.CallsOf()["Devices"], "the caller's copy is the injector's own")
}

// useTwoDevices is a careful user: whatever fails, it releases what it has, and returns the first error.
func useTwoDevices(driver gpu.Driver) (err error) {
	defer attempt.Catch(&err)
	devices := attempt.Get(driver.Devices())
	for _, device := range devices {
		attempt.Do(useDevice(driver, device.Ordinal))
	}
	return nil
}

func useDevice(driver gpu.Driver, ordinal int) (err error) {
	defer attempt.Catch(&err)
	attempt.Do(driver.ContextRetain(ordinal))
	defer func() { err = errors.Join(err, twice(func() error { return driver.ContextRelease(ordinal) })) }()
	if _, _, err := driver.MemGetInfo(ordinal); err != nil {
		return err
	}
	for range 2 {
		attempt.Do(useMemory(driver, ordinal))
	}
	return nil
}

func useMemory(driver gpu.Driver, ordinal int) (err error) {
	defer attempt.Catch(&err)
	addr := attempt.Get(driver.MemAlloc(ordinal, mib))
	defer func() { err = errors.Join(err, twice(func() error { return driver.MemFree(ordinal, addr) })) }()
	attempt.Do(driver.MemsetD8(ordinal, addr, 1, mib))
	attempt.Do(driver.MemcpyHtoD(ordinal, addr, []byte{2}))
	return driver.MemcpyDtoH(ordinal, make([]byte, 4), addr)
}

// twice calls again after a failure, and returns the failure.
func twice(call func() error) error {
	err := call()
	if err == nil {
		return nil
	}
	return errors.Join(err, call())
}

// TestEveryCallCanFailAndNothingLeaks fails call 0, 1, 2 ... of a session until a run has no call left to fail.
func TestEveryCallCanFailAndNothingLeaks(t *testing.T) {
	for n := 0; ; n++ {
		m := newMachine(t, "2xT4:64MiB", simulated.Options{})
		injector := faults.NewInjector(m, faults.OnIndex(n, gpu.ErrorUnknown))
		err := useTwoDevices(injector)
		allocations, retains := m.Live()
		require.Equal(t, []int{0, 0}, []int{allocations, retains}, "after the failure of call %d", n)
		injector.SetFaults()
		require.NoError(t, useTwoDevices(injector), "after the failure of call %d", n)
		if err == nil {
			require.Equal(t, 27, n, "every call has failed once")
			return
		}
		require.ErrorIs(t, err, gpu.ErrorUnknown)
	}
}

func TestRandomFailuresLeakNothing(t *testing.T) {
	m := newMachine(t, "2xT4:64MiB", simulated.Options{})
	for seed := range uint64(200) {
		injector := faults.NewInjector(m, faults.Seeded(0.1, seed, gpu.ErrorOutOfMemory))
		err := useTwoDevices(injector)
		if err != nil {
			require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
		}
		for ordinal := range 2 { // a release may have failed twice
			for m.ContextRelease(ordinal) == nil {
				require.Error(t, err)
			}
		}
		allocations, retains := m.Live()
		require.Equal(t, []int{0, 0}, []int{allocations, retains})
	}
}

// TestTheInjectorKnowsEveryMethod calls all of gpu.Driver by reflection, so that no call is left out: only HostVisible
// and Close, which cannot fail, have no faults.
func TestTheInjectorKnowsEveryMethod(t *testing.T) {
	driver := reflect.TypeFor[gpu.Driver]()
	for i := range driver.NumMethod() {
		name := driver.Method(i).Name
		if name == "HostVisible" || name == "Close" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			injector := faults.NewInjector(newMachine(t, "T4", simulated.Options{}),
				faults.OnOp(name, 0, gpu.ErrorNotPermitted))
			method := reflect.ValueOf(gpu.Driver(injector)).MethodByName(name)
			call := func() error {
				arguments := make([]reflect.Value, method.Type().NumIn())
				for i := range arguments {
					arguments[i] = reflect.Zero(method.Type().In(i))
				}
				results := method.Call(arguments)
				err, _ := results[len(results)-1].Interface().(error)
				return err
			}
			err := call()
			require.ErrorIs(t, err, gpu.ErrorNotPermitted)
			require.ErrorContains(t, err, "injected into "+name+",")
			require.NotErrorIs(t, call(), gpu.ErrorNotPermitted, "the second call goes through")
			require.Equal(t, map[string]int{name: 2}, injector.CallsOf())
		})
	}
}

// TestEveryCallOfStreamsCanFailAndNothingLeaks fails call 0, 1, 2 ... of a session that uses all of the driver.
func TestEveryCallOfStreamsCanFailAndNothingLeaks(t *testing.T) {
	called := map[string]int{}
	for n := 0; ; n++ {
		m := newMachine(t, "T4:64MiB", simulated.Options{})
		injector := faults.NewInjector(m, faults.OnIndex(n, gpu.ErrorUnknown))
		err := useStreams(injector, 0)
		require.Zero(t, m.Inventory(), "after the failure of call %d", n)
		injector.SetFaults()
		require.NoError(t, useStreams(injector, 0), "after the failure of call %d", n)
		if err == nil {
			called = injector.CallsOf()
			break
		}
		require.ErrorIs(t, err, gpu.ErrorUnknown)
		require.NoError(t, m.Close())
	}
	driver := reflect.TypeFor[gpu.Driver]()
	known := useTwoDevicesCalls(t)
	for i := range driver.NumMethod() {
		name := driver.Method(i).Name
		if name == "StreamGetCaptureLife" { // only a session that captures can call it
			continue
		}
		if name != "HostVisible" && name != "Close" && known[name] == 0 {
			require.Positive(t, called[name], "%s was never tried", name)
		}
	}
}

// useTwoDevicesCalls are the calls that the other session covers.
func useTwoDevicesCalls(t *testing.T) map[string]int {
	t.Helper()
	injector := faults.NewInjector(newMachine(t, "2xT4", simulated.Options{}))
	require.NoError(t, useTwoDevices(injector))
	return injector.CallsOf()
}

func TestManagedMemoryCountsAsAllocated(t *testing.T) {
	injector := faults.NewInjector(retained(t, "T4:1MiB", simulated.Options{}),
		faults.AfterBytes(5*mib, gpu.ErrorOutOfMemory))
	attempt.Get(injector.MemAllocManaged(0, 4*mib))
	_, err := injector.MemAllocManaged(0, 2*mib)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
}

func TestPhysicalMemoryCountsAsAllocated(t *testing.T) {
	injector := faults.NewInjector(retained(t, "T4", simulated.Options{}),
		faults.AfterBytes(5*mib, gpu.ErrorOutOfMemory))
	attempt.Get(injector.MemCreate(0, 4*mib))
	_, err := injector.MemCreate(0, 2*mib)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	_, err = injector.MemAddressReserve(64*mib, 0)
	require.NoError(t, err, "addresses are no memory")
	attempt.Get(injector.MemAlloc(0, mib))
}
