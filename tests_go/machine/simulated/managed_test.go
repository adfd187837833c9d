package simulated_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/simulated"
)

func allocManaged(m gpu.Driver, size uint64) uint64 { return attempt.Get(m.MemAllocManaged(0, size)) }

// TestHostMemoryStandsBehindACard writes and reads every byte of one and a half cards, through the driver and from the
// host.
func TestHostMemoryStandsBehindACard(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	m := retained(t, "T4:64MiB", simulated.Options{})
	const size = 96 * mib
	addr := allocManaged(m, size)
	block := make([]byte, mib)
	for i := range uint64(size / mib) {
		for at := range block {
			block[at] = byte(uint64(at)*31 + i)
		}
		require.NoError(t, m.MemcpyHtoD(0, addr+i*mib, block))
	}
	got := make([]byte, mib)
	for i := range uint64(size / mib) {
		for at := range block {
			block[at] = byte(uint64(at)*31 + i)
		}
		require.NoError(t, m.MemcpyDtoH(0, got, addr+i*mib))
		require.True(t, bytes.Equal(block, got), "MiB %d", i)
	}
	require.Equal(t, block, view(addr+size-mib, mib), "a device address is a host address here, too")
	require.NoError(t, m.MemFree(0, addr))
	require.Equal(t, make([]byte, mib), view(addr, mib), "a stale view reads nonsense, and never faults")
}

// TestManagedMemoryTakesWhatIsFree checks the counts, to the byte.
func TestManagedMemoryTakesWhatIsFree(t *testing.T) {
	const total = 64 * mib
	m := retained(t, "T4:64MiB", simulated.Options{UsedBytes: 4 * mib})
	small := allocManaged(m, 1)
	require.EqualValues(t, total-4*mib-256, freeBytes(t, m))
	large := allocManaged(m, total)
	require.Zero(t, freeBytes(t, m))
	plain := alloc(m, 60*mib)
	require.Zero(t, freeBytes(t, m))
	_, err := m.MemAlloc(0, 1)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory, "other memory lies there for good")
	require.NoError(t, m.MemFree(0, large))
	require.Zero(t, freeBytes(t, m))
	require.NoError(t, m.MemFree(0, plain))
	require.EqualValues(t, total-4*mib-256, freeBytes(t, m))
	require.NoError(t, m.MemFree(0, small))
	require.EqualValues(t, total-4*mib, freeBytes(t, m))
}

// TestManagedMemoryOfOldCardsHasToFit: a GPU before Pascal cannot fault on a page, so all of the memory must be on the
// card.
func TestManagedMemoryOfOldCardsHasToFit(t *testing.T) {
	m := retained(t, "K40:64MiB", simulated.Options{})
	devices := attempt.Get(m.Devices())
	require.True(t, devices[0].Managed)
	require.False(t, devices[0].Oversubscribes)
	allocManaged(m, 64*mib)
	for _, size := range []uint64{1, math.MaxUint64} {
		_, err := m.MemAllocManaged(0, size)
		require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	}
}

// TestRangesOfManagedMemoryServeAgain: a pool that endlessly allocates and frees regions must not exhaust the
// addresses.
func TestRangesOfManagedMemoryServeAgain(t *testing.T) {
	m := retained(t, "T4:64MiB", simulated.Options{NoVMM: true})
	first := allocManaged(m, 3*mib)
	for range 1000 {
		addr := allocManaged(m, 100*mib)
		require.Equal(t, first+4*mib, addr)
		require.NoError(t, m.MemFree(0, addr))
	}
	_, err := m.MemAddressReserve(2*mib, 0)
	require.ErrorIs(t, err, gpu.ErrorNotSupported, "a range of managed memory is no reservation")
	require.NoError(t, m.MemFree(0, first))
	require.Equal(t, simulated.Inventory{Retains: 1}, m.Inventory())
}

// A reservation near 2^64 bytes was once rounded up to 0 and granted, in a spare range of any size.
func TestAReservationOfAlmostAllAddressesIsRefused(t *testing.T) {
	m := retained(t, "T4:64MiB", simulated.Options{})
	addr := reserve(m, 1)
	require.NoError(t, m.MemAddressFree(addr, granule))
	_, err := m.MemAddressReserve(math.MaxUint64-4095, 0)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	require.Zero(t, m.Inventory().Reservations)
}
