package drivertest

import (
	"bytes"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

func addressesAreDisjoint(t *testing.T, f fixture) {
	type span struct{ begin, end uint64 }
	var live []span
	for _, device := range f.devices {
		f.ordinal = device.Ordinal
		f.retain(t)
		for _, size := range []uint64{1, 255, 256, 257, 4096, mib, 2 * mib, 3*mib + 1, 1} {
			addr := f.alloc(t, size)
			require.NotZero(t, addr)
			require.Zero(t, addr%256, "address %#x", addr)
			for _, other := range live {
				require.False(t, addr < other.end && other.begin < addr+size, "%#x lies inside a live allocation", addr)
			}
			live = append(live, span{addr, addr + size})
		}
	}
}

func sizeZeroIsRefused(t *testing.T, f fixture) {
	f.retain(t)
	before := f.free(t)
	_, err := f.MemAlloc(f.ordinal, 0)
	require.ErrorIs(t, err, gpu.ErrorInvalidValue)
	require.Equal(t, before, f.free(t))
}

func outOfMemoryChangesNothing(t *testing.T, f fixture) {
	f.retain(t)
	addr := f.alloc(t, mib)
	require.NoError(t, f.MemsetD8(f.ordinal, addr, 0x5a, mib))
	before := f.free(t)
	for _, size := range []uint64{f.devices[f.ordinal].TotalBytes + 1, 1 << 62, math.MaxUint64 - 255, math.MaxUint64} {
		_, err := f.MemAlloc(f.ordinal, size)
		require.ErrorIs(t, err, gpu.ErrorOutOfMemory, "%d bytes", size)
	}
	require.Equal(t, before, f.free(t))
	require.Equal(t, bytes.Repeat([]byte{0x5a}, mib), f.read(t, addr, mib))
	f.alloc(t, mib)
}

func freeTakesLiveAddressesOnly(t *testing.T, f fixture) {
	f.retain(t)
	const size = 4 * mib
	kept := f.alloc(t, size)
	gone := attempt.Get(f.MemAlloc(f.ordinal, size))
	require.NoError(t, f.MemFree(f.ordinal, gone))

	before := f.free(t)
	for name, addr := range map[string]uint64{
		"freed already": gone, "null": 0, "one byte in": kept + 1, "inside": kept + size/2, "at the end": kept + size,
		"below": kept - 256, "nonsense": math.MaxUint64,
	} {
		require.ErrorIs(t, f.MemFree(f.ordinal, addr), gpu.ErrorInvalidValue, name)
	}
	require.Equal(t, before, f.free(t))
	require.NoError(t, f.MemsetD8(f.ordinal, kept, 1, size), "the live allocation is still there")
}

func freeBytesFallAndReturn(t *testing.T, f fixture) {
	f.retain(t)
	const size = 8 * mib
	start := f.free(t)
	first := attempt.Get(f.MemAlloc(f.ordinal, size))
	one := f.free(t)
	require.GreaterOrEqual(t, start-one, uint64(size))
	second := attempt.Get(f.MemAlloc(f.ordinal, size))
	require.GreaterOrEqual(t, one-f.free(t), uint64(size))
	require.NoError(t, f.MemFree(f.ordinal, first))
	require.NoError(t, f.MemFree(f.ordinal, second))
	require.Equal(t, start, f.free(t))
	_, total, err := f.MemGetInfo(f.ordinal)
	require.NoError(t, err)
	require.Equal(t, f.devices[f.ordinal].TotalBytes, total)
}

func (f fixture) read(t *testing.T, addr uint64, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	require.NoError(t, f.MemcpyDtoH(f.ordinal, data, addr))
	return data
}

func bytesRoundTrip(t *testing.T, f fixture) {
	f.retain(t)
	const size = 1000
	addr := f.alloc(t, size)
	neighbor := f.alloc(t, size)
	require.NoError(t, f.MemsetD8(f.ordinal, neighbor, 0xee, size))

	want := make([]byte, size)
	for i := range want {
		want[i] = byte(i * 7)
	}
	require.NoError(t, f.MemcpyHtoD(f.ordinal, addr, want))
	require.Equal(t, want, f.read(t, addr, size))

	require.NoError(t, f.MemsetD8(f.ordinal, addr+10, 0xab, 20))
	copy(want[10:30], bytes.Repeat([]byte{0xab}, 20))
	require.NoError(t, f.MemcpyHtoD(f.ordinal, addr+size-3, []byte{1, 2, 3}))
	copy(want[size-3:], []byte{1, 2, 3})
	require.Equal(t, want, f.read(t, addr, size))
	require.Equal(t, want[5:25], f.read(t, addr+5, 20))
	require.Equal(t, bytes.Repeat([]byte{0xee}, size), f.read(t, neighbor, size), "a neighbor was written")
}

func accessStaysInside(t *testing.T, f fixture) {
	f.retain(t)
	const size = 4 * mib
	addr := f.alloc(t, size)
	require.NoError(t, f.MemsetD8(f.ordinal, addr, 7, size))
	gone := attempt.Get(f.MemAlloc(f.ordinal, size))
	require.NoError(t, f.MemFree(f.ordinal, gone))

	for name, place := range map[string]struct {
		addr  uint64
		bytes int
	}{
		"one byte too long":          {addr, size + 1},
		"over the end":               {addr + size - 8, 16},
		"at the end":                 {addr + size, 1},
		"over the beginning":         {addr - 8, 16},
		"below":                      {addr - 1, 1},
		"freed":                      {gone, 16},
		"null":                       {0, 16},
		"around the address space":   {math.MaxUint64 - 7, 16},
		"the whole, from the middle": {addr + size/2, size},
	} {
		require.ErrorIs(t, f.MemcpyHtoD(f.ordinal, place.addr, make([]byte, place.bytes)), gpu.ErrorInvalidValue, name)
		require.ErrorIs(t, f.MemcpyDtoH(f.ordinal, make([]byte, place.bytes), place.addr), gpu.ErrorInvalidValue, name)
		require.ErrorIs(t, f.MemsetD8(f.ordinal, place.addr, 9, uint64(place.bytes)), gpu.ErrorInvalidValue, name)
	}
	require.ErrorIs(t, f.MemsetD8(f.ordinal, addr, 9, math.MaxUint64), gpu.ErrorInvalidValue)
	require.ErrorIs(t, f.MemsetD8(f.ordinal, addr+1, 9, math.MaxUint64), gpu.ErrorInvalidValue)
	require.Equal(t, bytes.Repeat([]byte{7}, size), f.read(t, addr, size), "a refused call wrote")

	for _, device := range f.devices {
		if device.Ordinal == f.ordinal {
			continue
		}
		other := f
		other.ordinal = device.Ordinal
		other.retain(t)
		require.ErrorIs(t, other.MemsetD8(other.ordinal, addr, 9, 1), gpu.ErrorInvalidValue, "another device's memory")
		require.ErrorIs(t, other.MemcpyHtoD(other.ordinal, addr, []byte{9}), gpu.ErrorInvalidValue,
			"another device's memory")
		break
	}
}

func manyGoroutines(t *testing.T, f fixture) {
	f.retain(t)
	before := f.free(t)
	const workers, rounds = 8, 25
	failures := make(chan error, workers)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for range rounds {
				if err := f.useOnce(byte(worker)); err != nil {
					failures <- fmt.Errorf("worker %d: %w", worker, err)
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	require.Equal(t, before, f.free(t))
}

// useOnce does what one user does: retain a context, allocate, write, read, free.
func (f fixture) useOnce(value byte) (err error) {
	defer attempt.Catch(&err)
	attempt.Do(f.ContextRetain(f.ordinal))
	defer func() { _ = f.ContextRelease(f.ordinal) }()
	attempt.Get(f.Devices())
	const size = 64 << 10
	addr := attempt.Get(f.MemAlloc(f.ordinal, size))
	attempt.Do(f.MemsetD8(f.ordinal, addr, value, size))
	attempt.Do(f.MemcpyHtoD(f.ordinal, addr, []byte{value}))
	data := make([]byte, size)
	attempt.Do(f.MemcpyDtoH(f.ordinal, data, addr))
	if !bytes.Equal(data, bytes.Repeat([]byte{value}, size)) {
		return fmt.Errorf("another goroutine's bytes in %#x", addr)
	}
	return f.MemFree(f.ordinal, addr)
}
