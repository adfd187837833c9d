package drivertest

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

// managing runs a check on a device with managed memory that can, or cannot, exceed the device's memory. Without such a
// device it checks nothing.
func managing(oversubscribes bool, check func(*testing.T, fixture)) func(*testing.T, fixture) {
	return func(t *testing.T, f fixture) {
		for _, device := range f.devices {
			if device.Managed && device.Oversubscribes == oversubscribes {
				f.ordinal = device.Ordinal
				check(t, f.retain(t))
				return
			}
		}
		t.Skip("no such device")
	}
}

// managed allocates managed memory until the test ends.
func (f fixture) managed(t *testing.T, size uint64) uint64 {
	t.Helper()
	addr := attempt.Get(f.MemAllocManaged(f.ordinal, size))
	t.Cleanup(func() {
		if err := f.MemFree(f.ordinal, addr); !isOver(err) {
			require.NoError(t, err)
		}
	})
	return addr
}

func devicesWithoutManagedMemory(t *testing.T, f fixture) {
	for _, device := range f.devices {
		if device.Managed {
			continue
		}
		require.False(t, device.Oversubscribes)
		f.ordinal = device.Ordinal
		f.retain(t)
		_, err := f.MemAllocManaged(f.ordinal, mib)
		require.ErrorIs(t, err, gpu.ErrorNotSupported)
	}
}

// managedMemoryIsMemory checks facts 4, 6 and 8 on managed memory, beside device memory.
func managedMemoryIsMemory(t *testing.T, f fixture) {
	_, err := f.MemAllocManaged(f.ordinal, 0)
	require.ErrorIs(t, err, gpu.ErrorInvalidValue)
	for _, size := range []uint64{1 << 62, math.MaxUint64 - 255, math.MaxUint64} {
		_, err := f.MemAllocManaged(f.ordinal, size)
		require.ErrorIs(t, err, gpu.ErrorOutOfMemory, "%d bytes", size)
	}
	const size = 3*mib + 1
	plain, kept, other := f.alloc(t, mib), f.managed(t, size), f.managed(t, 1)
	for name, addr := range map[string]uint64{"managed": kept, "of one byte": other} {
		require.NotZero(t, addr, name)
		require.Zero(t, addr%256, name)
		require.False(t, addr < plain+mib && plain < addr+size, name)
	}
	require.False(t, other >= kept && other < kept+size)

	require.NoError(t, f.MemsetD8(f.ordinal, kept, 7, size))
	require.NoError(t, f.MemcpyHtoD(f.ordinal, kept+mib, []byte("managed")))
	require.NoError(t, f.MemcpyDtoDAsync(f.ordinal, plain, kept+mib, 16, gpu.StreamNull))
	require.NoError(t, f.MemcpyDtoDAsync(f.ordinal, kept+2*mib, plain, 16, gpu.StreamNull))
	require.Equal(t, []byte("managed\x07\x07\x07\x07\x07\x07\x07\x07\x07"), f.read(t, kept+2*mib, 16))

	gone := attempt.Get(f.MemAllocManaged(f.ordinal, size))
	require.NoError(t, f.MemFree(f.ordinal, gone))
	for name, addr := range map[string]uint64{"freed already": gone, "one byte in": kept + 1, "inside": kept + mib,
		"at the end": kept + size} {
		require.ErrorIs(t, f.MemFree(f.ordinal, addr), gpu.ErrorInvalidValue, name)
	}
	for name, addr := range map[string]uint64{"freed": gone, "over the end": kept + size - 8, "below": kept - 8} {
		require.ErrorIs(t, f.MemsetD8(f.ordinal, addr, 9, 16), gpu.ErrorInvalidValue, name)
		require.ErrorIs(t, f.MemcpyHtoD(f.ordinal, addr, make([]byte, 16)), gpu.ErrorInvalidValue, name)
	}
	require.Equal(t, bytes.Repeat([]byte{7}, 8), f.read(t, kept+size-8, 8), "a refused call wrote")
}

func managedMemoryInStreams(t *testing.T, f fixture) {
	stream := attempt.Get(f.StreamCreate(f.ordinal, gpu.StreamNonBlocking, 0))
	addr := f.managed(t, mib)
	require.NoError(t, f.MemsetD8Async(f.ordinal, addr, 3, mib, stream))
	require.NoError(t, f.MemcpyDtoDAsync(f.ordinal, addr, addr+mib/2, mib/4, stream))
	require.ErrorIs(t, f.MemsetD8Async(f.ordinal, addr+1, 3, mib, stream), gpu.ErrorInvalidValue)
	if f.devices[f.ordinal].StreamMemOps {
		require.NoError(t, f.StreamWriteValue64(f.ordinal, stream, addr+8, 0x0101010101010101))
	}
	require.NoError(t, f.StreamSynchronize(f.ordinal, stream))
	require.Equal(t, []byte{3, 3}, f.read(t, addr, 2))
	if f.devices[f.ordinal].StreamMemOps {
		require.Equal(t, []byte{1, 1}, f.read(t, addr+8, 2))
	}
	require.NoError(t, f.StreamDestroy(f.ordinal, stream))
}

func managedMemoryEndsWithItsContext(t *testing.T, f fixture) {
	addr := attempt.Get(f.MemAllocManaged(f.ordinal, mib))
	require.NoError(t, f.ContextRelease(f.ordinal))
	require.NoError(t, f.ContextRetain(f.ordinal))
	require.ErrorIs(t, f.MemFree(f.ordinal, addr), gpu.ErrorInvalidValue)
	require.ErrorIs(t, f.MemsetD8(f.ordinal, addr, 0, 1), gpu.ErrorInvalidValue)
}

// managedMemoryExceedsTheDevice allocates one and a half times the device's memory in one piece and uses it at places
// that cannot all be on the device; then it allocates some device memory.
func managedMemoryExceedsTheDevice(t *testing.T, f fixture) {
	total := f.devices[f.ordinal].TotalBytes
	size := total + total/2
	addr := f.managed(t, size)
	for at := uint64(0); at < size; at += size / 16 {
		require.NoError(t, f.MemcpyHtoD(f.ordinal, addr+at, []byte{byte(at / (size / 16)), 0xaa}))
	}
	require.NoError(t, f.MemsetD8(f.ordinal, addr+size-4096, 0x5b, 4096))
	for at := uint64(0); at < size; at += size / 16 {
		require.Equal(t, []byte{byte(at / (size / 16)), 0xaa}, f.read(t, addr+at, 2), "at %d of %d", at, size)
	}
	require.Equal(t, bytes.Repeat([]byte{0x5b}, 4096), f.read(t, addr+size-4096, 4096))
	require.ErrorIs(t, f.MemsetD8(f.ordinal, addr+size-8, 1, 16), gpu.ErrorInvalidValue)
}

// managedMemoryMakesRoom: device memory is available although managed memory fills the device.
func managedMemoryMakesRoom(t *testing.T, f fixture) {
	room := f.free(t) / 2
	size := f.devices[f.ordinal].TotalBytes
	addr := f.managed(t, size)
	require.NoError(t, f.MemsetD8(f.ordinal, addr, 1, 2*mib))
	plain := f.alloc(t, room)
	require.NoError(t, f.MemsetD8(f.ordinal, plain, 2, 2*mib))
	require.Equal(t, []byte{1}, f.read(t, addr, 1))
	require.Equal(t, []byte{2}, f.read(t, plain, 1))
	f.free(t)
}

func managedMemoryHasToFit(t *testing.T, f fixture) {
	start, total := f.free(t), f.devices[f.ordinal].TotalBytes
	_, err := f.MemAllocManaged(f.ordinal, total+1)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	require.Equal(t, start, f.free(t))
	addr := attempt.Get(f.MemAllocManaged(f.ordinal, 8*mib))
	require.GreaterOrEqual(t, start-f.free(t), uint64(8*mib))
	_, err = f.MemAlloc(f.ordinal, start)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory, "it does not move away")
	require.NoError(t, f.MemFree(f.ordinal, addr))
	require.Equal(t, start, f.free(t))
}
