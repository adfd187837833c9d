//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/meminfo"
	"gpuconf/tests_go/attempt"
)

// TestSynchronousCallsWait: work of a non-blocking stream, which waits for no other stream, sees the effect of a
// synchronous call.
func TestSynchronousCallsWait(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	addr := attempt.Get(driver.MemAlloc(0, mib))
	word := attempt.Get(driver.MemHostAlloc(0, 8))
	stream := attempt.Get(driver.StreamCreate(0, gpu.StreamNonBlocking, 0))

	for name, row := range map[string]struct {
		call func() error
		want byte
	}{
		"MemcpyHtoD": {func() error { return driver.MemcpyHtoD(0, addr, []byte{1}) }, 1},
		"MemsetD8":   {func() error { return driver.MemsetD8(0, addr, 2, 1) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, driver.MemsetD8(0, addr, 0, 1))
			fake.Delay(5000)
			require.NoError(t, row.call())
			fake.Delay(0)
			require.NoError(t, driver.MemcpyDtoHAsync(0, word.Addr, addr, 1, stream))
			require.NoError(t, driver.StreamSynchronize(0, stream))
			require.Equal(t, row.want, word.Bytes[0])
		})
	}
}

// TestRefusedGivingBack: what CUDA refuses to free remains allocated, and can be freed later.
func TestRefusedGivingBack(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	addr := attempt.Get(driver.MemAlloc(0, mib))
	host := attempt.Get(driver.MemHostAlloc(0, 4096))
	stream := attempt.Get(driver.StreamCreate(0, gpu.StreamDefault, 0))
	event := attempt.Get(driver.EventCreate(0))
	reserved := attempt.Get(driver.MemAddressReserve(8*mib, 0))
	handle := attempt.Get(driver.MemCreate(0, 2*mib))
	require.NoError(t, driver.MemMap(reserved, 2*mib, handle))
	require.NoError(t, driver.MemSetAccess(0, reserved, 2*mib))
	require.NoError(t, driver.MemMap(reserved+2*mib, 2*mib, handle))
	require.NoError(t, driver.MemSetAccess(0, reserved+2*mib, 2*mib))

	for _, row := range []struct {
		name string
		call func() error
		use  func() error
	}{
		{"cuMemFree", func() error { return driver.MemFree(0, addr) },
			func() error { return driver.MemsetD8(0, addr, 1, mib) }},
		{"cuMemFreeHost", func() error { return driver.MemFreeHost(0, host.Addr) },
			func() error { return driver.StreamWriteValue64(0, gpu.StreamNull, host.Addr, 1) }},
		{"cuStreamDestroy", func() error { return driver.StreamDestroy(0, stream) },
			func() error { return driver.StreamSynchronize(0, stream) }},
		{"cuEventDestroy", func() error { return driver.EventDestroy(0, event) },
			func() error { return driver.EventSynchronize(0, event) }},
		{"cuMemUnmap", func() error { return driver.MemUnmap(reserved, 4*mib) },
			func() error { return driver.MemsetD8(0, reserved+mib, 1, 2*mib) }},
		{"cuMemRelease", func() error { return driver.MemRelease(handle) }, nil},
		{"cuMemAddressFree", func() error { return driver.MemAddressFree(reserved, 8*mib) }, nil},
	} {
		fake.Fail(row.name, 0, int(gpu.ErrorUnknown))
		require.ErrorIs(t, row.call(), gpu.ErrorUnknown, row.name)
		if row.use != nil {
			require.NoError(t, row.use(), row.name)
			require.NoError(t, driver.StreamSynchronize(0, gpu.StreamNull))
		}
		require.NoError(t, row.call(), row.name)
		if row.use != nil {
			require.Error(t, row.use(), row.name)
		}
		require.Error(t, row.call(), "%s, a second time", row.name)
	}
	require.Equal(t, map[string]int{"retains": 1}, fake.Live())
}

// TestCallsCostNoGoMemory: successful calls allocate no Go memory.
func TestCallsCostNoGoMemory(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	addr := attempt.Get(driver.MemAlloc(0, mib))
	event := attempt.Get(driver.EventCreate(0))
	for name, call := range map[string]func(){
		"MemGetInfo":  func() { _, _, _ = driver.MemGetInfo(0) },
		"EventRecord": func() { _ = driver.EventRecord(0, event, gpu.StreamNull) },
		"EventQuery":  func() { _, _ = driver.EventQuery(0, event) },
		"StreamQuery": func() { _, _ = driver.StreamQuery(0, gpu.StreamNull) },
		"MemsetD8":    func() { _ = driver.MemsetD8(0, addr, 1, 512) },
		"MemFree": func() {
			_ = driver.MemFree(0, addr)
			addr, _ = driver.MemAlloc(0, mib)
		},
	} {
		require.Zero(t, testing.AllocsPerRun(50, call), name)
	}
}

func TestErrorsSayWhatWasAsked(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	_, err := driver.MemAlloc(0, 4<<30)
	require.EqualError(t, err, "cuMemAlloc of 4294967296 bytes on GPU 0: CUDA_ERROR_OUT_OF_MEMORY (2)")
	fake.Fail("cuMemsetD8", 0, 712)
	addr := attempt.Get(driver.MemAlloc(0, mib))
	require.ErrorContains(t, driver.MemsetD8(0, addr, 1, 16), "cuMemsetD8 of 16 bytes at 0x")
	require.ErrorContains(t, driver.MemsetD8(0, addr, 1, mib+1), "not within one allocation, or within mappings "+
		"with access, of GPU 0")
	require.EqualError(t, driver.ContextRetain(3), "unknown GPU 3, the driver has 1: CUDA_ERROR_INVALID_DEVICE (101)")
	require.NoError(t, driver.ContextRelease(0))
	_, err = driver.MemAlloc(0, 1)
	require.EqualError(t, err, "GPU 0 has no retained context: CUDA_ERROR_INVALID_CONTEXT (201)")
}

// TestKindsOfMemory: on a GPU that shares the host's memory, free is what the host can still provide, not only what it
// leaves unused.
func TestKindsOfMemory(t *testing.T) {
	host := attempt.Get(meminfo.Read())
	for _, row := range []struct {
		variables map[string]string
		kind      gpu.MemoryKind
	}{
		{nil, gpu.Dedicated},
		{map[string]string{"GPUCONF_SIMULATE": "GH200-96GB:1GiB"}, gpu.Coherent},
		{map[string]string{"GPUCONF_SIMULATE": "GB10:1GiB"}, gpu.Unified},
	} {
		t.Run(row.kind.String(), func(t *testing.T) {
			configure(t, row.variables)
			driver := open(t)
			require.Equal(t, row.kind, attempt.Get(driver.Devices())[0].MemoryKind)
			require.NoError(t, driver.ContextRetain(0))
			attempt.Get(driver.MemAlloc(0, 512*mib))
			free, total, err := driver.MemGetInfo(0)
			require.NoError(t, err)
			if row.kind == gpu.Unified && host.AvailableBytes > total {
				require.Equal(t, total, free)
			} else if row.kind != gpu.Unified {
				require.Equal(t, total-512*mib, free)
			}
		})
	}
}

// Under WSL2 more can be in use than the card has, and what the driver calls free has then wrapped around: it is 0.
func TestFreeMemoryIsNeverMoreThanTheTotal(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_OVERFULL": "1"})
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	free, total, err := driver.MemGetInfo(0)
	require.NoError(t, err)
	require.Zero(t, free)
	require.NotZero(t, total)
}
