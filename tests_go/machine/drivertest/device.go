package drivertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

func devicesNeedNoContext(t *testing.T, f fixture) {
	again := attempt.Get(f.Devices())
	require.Equal(t, f.devices, again, "the list changed between two calls")
	for _, device := range f.devices {
		_, _, err := f.MemGetInfo(device.Ordinal)
		require.ErrorIs(t, err, gpu.ErrorInvalidContext, "reading the devices created a context")
	}
	again[0].Name = "changed"
	require.Equal(t, f.devices, attempt.Get(f.Devices()), "the caller's copy is the driver's own")
}

func devicesAreDescribed(t *testing.T, f fixture) {
	uuids, buses := map[string]bool{}, map[string]bool{}
	for i, device := range f.devices {
		require.Equal(t, i, device.Ordinal)
		require.Regexp(t, `^(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, device.UUID)
		require.Regexp(t, `^[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`, device.PCIBusID)
		require.NotEmpty(t, device.Name)
		require.Positive(t, device.ComputeMajor)
		require.GreaterOrEqual(t, device.ComputeMinor, 0)
		require.Positive(t, device.Multiprocessors)
		require.Positive(t, device.TotalBytes)
		require.LessOrEqual(t, device.GreatestPriority, device.LeastPriority)
		require.False(t, uuids[device.UUID], "two devices with UUID %s", device.UUID)
		require.False(t, buses[device.PCIBusID], "two devices at %s", device.PCIBusID)
		uuids[device.UUID], buses[device.PCIBusID] = true, true
	}
}

// contextCalls returns every call that needs a context, each with arguments that are also invalid in other ways.
func (f fixture) contextCalls(ordinal int, addr uint64) map[string]func() error {
	calls := map[string]func() error{
		"MemGetInfo": func() error { _, _, err := f.MemGetInfo(ordinal); return err },
		"MemAlloc":   func() error { _, err := f.MemAlloc(ordinal, mib); return err },
		"MemFree":    func() error { return f.MemFree(ordinal, addr) },
		"MemcpyHtoD": func() error { return f.MemcpyHtoD(ordinal, addr, make([]byte, 16)) },
		"MemcpyDtoH": func() error { return f.MemcpyDtoH(ordinal, make([]byte, 16), addr) },
		"MemsetD8":   func() error { return f.MemsetD8(ordinal, addr, 1, 16) },

		"MemHostAlloc": func() error { _, err := f.MemHostAlloc(ordinal, 4096); return err },
		"MemFreeHost":  func() error { return f.MemFreeHost(ordinal, addr) },

		"StreamCreate":         func() error { _, err := f.StreamCreate(ordinal, gpu.StreamDefault, 0); return err },
		"StreamGetID":          func() error { _, err := f.StreamGetID(ordinal, gpu.StreamNull); return err },
		"StreamGetPriority":    func() error { _, err := f.StreamGetPriority(ordinal, gpu.StreamNull); return err },
		"StreamSynchronize":    func() error { return f.StreamSynchronize(ordinal, gpu.StreamNull) },
		"ContextSynchronize":   func() error { return f.ContextSynchronize(ordinal) },
		"StreamGetCaptureInfo": func() error { _, err := f.StreamGetCaptureInfo(ordinal, gpu.StreamNull); return err },
		"StreamGetCaptureLife": func() error { _, err := f.StreamGetCaptureLife(ordinal, gpu.StreamNull); return err },
		"StreamQuery":          func() error { _, err := f.StreamQuery(ordinal, gpu.StreamNull); return err },
		"EventCreate":          func() error { _, err := f.EventCreate(ordinal); return err },
		"MemcpyDtoHAsync":      func() error { return f.MemcpyDtoHAsync(ordinal, addr, addr, 16, gpu.StreamNull) },
		"MemcpyDtoDAsync":      func() error { return f.MemcpyDtoDAsync(ordinal, addr, addr+64, 16, gpu.StreamNull) },
		"MemsetD8Async":        func() error { return f.MemsetD8Async(ordinal, addr, 1, 16, gpu.StreamNull) },
	}
	if f.devices[f.ordinal].Managed {
		calls["MemAllocManaged"] = func() error { _, err := f.MemAllocManaged(ordinal, mib); return err }
	}
	if f.devices[f.ordinal].VMM {
		calls["MemCreate"] = func() error { _, err := f.MemCreate(ordinal, 2*mib); return err }
		calls["MemSetAccess"] = func() error { return f.MemSetAccess(ordinal, addr, 2*mib) }
	}
	if f.devices[f.ordinal].StreamMemOps {
		calls["StreamWriteValue64"] = func() error { return f.StreamWriteValue64(ordinal, gpu.StreamNull, addr, 1) }
		calls["StreamWaitValue64"] = func() error { return f.StreamWaitValue64(ordinal, gpu.StreamNull, addr, 0) }
	}
	return calls
}

// processCalls returns every call that names no device.
func (f fixture) processCalls() map[string]func() error {
	return map[string]func() error{
		"Devices":           func() error { _, err := f.Devices(); return err },
		"MemAddressReserve": func() error { _, err := f.MemAddressReserve(2*mib, 0); return err },
		"MemAddressFree":    func() error { return f.MemAddressFree(2*mib, 2*mib) },
		"MemMap":            func() error { return f.MemMap(2*mib, 2*mib, 1) },
		"MemUnmap":          func() error { return f.MemUnmap(2*mib, 2*mib) },
		"MemRelease":        func() error { return f.MemRelease(1) },
	}
}

func callsNeedContext(t *testing.T, f fixture) {
	for name, call := range f.contextCalls(f.ordinal, 0x1000) {
		require.ErrorIs(t, call(), gpu.ErrorInvalidContext, name)
	}
	require.ErrorIs(t, f.ContextRelease(f.ordinal), gpu.ErrorInvalidContext)
}

func retainsAreCounted(t *testing.T, f fixture) {
	require.NoError(t, f.ContextRetain(f.ordinal))
	require.NoError(t, f.ContextRetain(f.ordinal))
	require.NoError(t, f.ContextRelease(f.ordinal))
	f.free(t) // one retain is left
	require.NoError(t, f.ContextRelease(f.ordinal))
	_, _, err := f.MemGetInfo(f.ordinal)
	require.ErrorIs(t, err, gpu.ErrorInvalidContext)
	require.ErrorIs(t, f.ContextRelease(f.ordinal), gpu.ErrorInvalidContext)

	require.NoError(t, f.ContextRetain(f.ordinal), "a context can come back")
	f.free(t)
	require.NoError(t, f.ContextRelease(f.ordinal))
}

func lastReleaseEndsAllocations(t *testing.T, f fixture) {
	require.NoError(t, f.ContextRetain(f.ordinal))
	before := f.free(t)
	addr := attempt.Get(f.MemAlloc(f.ordinal, 8*mib))
	require.NoError(t, f.ContextRelease(f.ordinal))

	f.retain(t)
	require.GreaterOrEqual(t, f.free(t), before, "the allocation survived its context")
	require.ErrorIs(t, f.MemFree(f.ordinal, addr), gpu.ErrorInvalidValue)
	require.ErrorIs(t, f.MemsetD8(f.ordinal, addr, 0, 1), gpu.ErrorInvalidValue)
}

func unknownOrdinals(t *testing.T, f fixture) {
	for _, ordinal := range []int{-1, len(f.devices), 1 << 40} {
		require.ErrorIs(t, f.ContextRetain(ordinal), gpu.ErrorInvalidDevice)
		require.ErrorIs(t, f.ContextRelease(ordinal), gpu.ErrorInvalidDevice)
		for name, call := range f.contextCalls(ordinal, 0x1000) {
			require.ErrorIs(t, call(), gpu.ErrorInvalidDevice, name)
		}
	}
}

func closedDriverRefuses(t *testing.T, f fixture) {
	f.retain(t)
	addr := f.alloc(t, mib)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "a second Close does nothing")

	for name, call := range f.processCalls() {
		require.ErrorIs(t, call(), gpu.ErrorDeinitialized, name)
	}
	_, _, err := f.MemGetAllocationGranularity(f.ordinal)
	require.ErrorIs(t, err, gpu.ErrorDeinitialized)
	require.ErrorIs(t, f.ContextRetain(f.ordinal), gpu.ErrorDeinitialized)
	require.ErrorIs(t, f.ContextRelease(f.ordinal), gpu.ErrorDeinitialized)
	for _, ordinal := range []int{f.ordinal, -1} {
		for name, call := range f.contextCalls(ordinal, addr) {
			require.ErrorIs(t, call(), gpu.ErrorDeinitialized, name)
		}
	}
}
