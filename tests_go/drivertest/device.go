package drivertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
)

func devicesNeedNoContext(t *testing.T, f fixture) {
	again, err := f.Devices()
	require.NoError(t, err)
	require.Equal(t, f.devices, again, "the list changed between two calls")
	for _, device := range f.devices {
		_, _, err := f.MemGetInfo(device.Ordinal)
		require.ErrorIs(t, err, gpu.ErrorInvalidContext, "reading the devices created a context")
	}
	again[0].Name = "changed"
	third, err := f.Devices()
	require.NoError(t, err)
	require.Equal(t, f.devices, third, "the caller's copy is the driver's own")
}

func devicesAreDescribed(t *testing.T, f fixture) {
	uuids, buses := map[string]bool{}, map[string]bool{}
	for i, device := range f.devices {
		require.Equal(t, i, device.Ordinal)
		require.Regexp(t, `^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, device.UUID)
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

// memoryCalls is every call that touches memory, each with arguments that would be wrong in other ways, too.
func (f fixture) memoryCalls(ordinal int, addr uint64) map[string]func() error {
	return map[string]func() error{
		"MemGetInfo": func() error { _, _, err := f.MemGetInfo(ordinal); return err },
		"MemAlloc":   func() error { _, err := f.MemAlloc(ordinal, mib); return err },
		"MemFree":    func() error { return f.MemFree(ordinal, addr) },
		"MemcpyHtoD": func() error { return f.MemcpyHtoD(ordinal, addr, make([]byte, 16)) },
		"MemcpyDtoH": func() error { return f.MemcpyDtoH(ordinal, make([]byte, 16), addr) },
		"MemsetD8":   func() error { return f.MemsetD8(ordinal, addr, 1, 16) },
	}
}

func memoryNeedsContext(t *testing.T, f fixture) {
	for name, call := range f.memoryCalls(f.ordinal, 0x1000) {
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
	addr, err := f.MemAlloc(f.ordinal, 8*mib)
	require.NoError(t, err)
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
		for name, call := range f.memoryCalls(ordinal, 0x1000) {
			require.ErrorIs(t, call(), gpu.ErrorInvalidDevice, name)
		}
	}
}

func closedDriverRefuses(t *testing.T, f fixture) {
	f.retain(t)
	addr := f.alloc(t, mib)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "a second Close does nothing")

	_, err := f.Devices()
	require.ErrorIs(t, err, gpu.ErrorDeinitialized)
	require.ErrorIs(t, f.ContextRetain(f.ordinal), gpu.ErrorDeinitialized)
	require.ErrorIs(t, f.ContextRelease(f.ordinal), gpu.ErrorDeinitialized)
	for _, ordinal := range []int{f.ordinal, -1} {
		for name, call := range f.memoryCalls(ordinal, addr) {
			require.ErrorIs(t, call(), gpu.ErrorDeinitialized, name)
		}
	}
}
