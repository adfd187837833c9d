package simulated_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/simulated"
)

const mib = 1 << 20

func runChild(t *testing.T, job string) string {
	t.Helper()
	self := attempt.Get(os.Executable())
	child := exec.Command(self)
	child.Env = append(os.Environ(), childEnv+"="+job)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestSameCallsGiveSameAddressesInEveryProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	first := runChild(t, "addresses")
	require.NotEmpty(t, first)
	require.Equal(t, first, runChild(t, "addresses"))
	require.Equal(t, first, addressScript(), "this process, which has opened machines before")
	require.Equal(t, first, addressScript(), "a second machine after the first was closed")
}

func TestLimitedAddressSpaceIsAClearError(t *testing.T) {
	require.Empty(t, runChild(t, "address space limit"))
}

func TestMachinesAtTheSameTimeShareNoAddress(t *testing.T) {
	owner := map[uint64]string{}
	for i := range 3 {
		m := newMachine(t, "2xH200", simulated.Options{})
		for ordinal := range 2 {
			require.NoError(t, m.ContextRetain(ordinal))
			addr := attempt.Get(m.MemAlloc(ordinal, mib))
			require.Empty(t, owner[addr])
			owner[addr] = fmt.Sprintf("machine %d, GPU %d", i, ordinal)
		}
	}
}

func TestLargestMachineOpens(t *testing.T) {
	m := newMachine(t, "64xB200", simulated.Options{})
	require.Len(t, attempt.Get(m.Devices()), 64)
	require.NoError(t, m.ContextRetain(63))
	attempt.Get(m.MemAlloc(63, 178<<30))
}

// retained returns a machine whose GPU 0 has a context.
func retained(t testing.TB, text string, opts simulated.Options) *simulated.Machine {
	t.Helper()
	m := newMachine(t, text, opts)
	require.NoError(t, m.ContextRetain(0))
	return m
}

func alloc(m gpu.Driver, size uint64) uint64 { return attempt.Get(m.MemAlloc(0, size)) }

func freeBytes(t testing.TB, m gpu.Driver) uint64 {
	t.Helper()
	free, _, err := m.MemGetInfo(0)
	require.NoError(t, err)
	return free
}

func TestChargesAreExact(t *testing.T) {
	m := retained(t, "H100-80GB:80GiB", simulated.Options{})
	require.Equal(t, uint64(85899345920), freeBytes(t, m), "a context costs nothing")
	for size, charge := range map[uint64]uint64{1: 256, 256: 256, 257: 512, 2 * mib: 2 * mib, 2*mib + 1: 2*mib + 256} {
		addr := alloc(m, size)
		require.Equal(t, 85899345920-charge, freeBytes(t, m), "%d bytes", size)
		require.NoError(t, m.MemFree(0, addr))
	}
	require.Equal(t, uint64(85899345920), freeBytes(t, m))
}

func TestTheLastByteCanBeTaken(t *testing.T) {
	for _, text := range []string{"T4:256B", "T4:768B", "T4:1MiB", "T4:3MiB", "T4:1025KiB", "H100-80GB"} {
		m := retained(t, text, simulated.Options{})
		total := freeBytes(t, m)
		whole := alloc(m, total)
		require.Zero(t, freeBytes(t, m))
		_, err := m.MemAlloc(0, 1)
		require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
		require.NoError(t, m.MemsetD8(0, whole+total-1, 1, 1))
		require.NoError(t, m.MemFree(0, whole))
		_, err = m.MemAlloc(0, total+1)
		require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	}
}

func TestFragmentsServeWhatIsFree(t *testing.T) {
	m := retained(t, "T4:64MiB", simulated.Options{})
	var all []uint64
	for range 32 {
		all = append(all, alloc(m, 2*mib))
	}
	for i := 0; i < len(all); i += 2 {
		require.NoError(t, m.MemFree(0, all[i]))
	}
	// half is free, fragmented into 2 MiB pieces; a GPU can map them anywhere, so the request succeeds
	alloc(m, 32*mib)
	require.Zero(t, freeBytes(t, m))
}

// As on an H200 (gocore/sim/cuda/blocks.c).
func TestAddressesAreThoseOfADriver(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	a, b, c := alloc(m, 4*mib), alloc(m, 6*mib), alloc(m, 4*mib)
	require.Equal(t, a+4*mib, b)
	require.Equal(t, b+6*mib, c)
	small := alloc(m, 100)
	require.Equal(t, c+4*mib, small)
	require.Equal(t, small+256, alloc(m, 100))
	require.Equal(t, c+6*mib, alloc(m, 2*mib), "large allocations start at a multiple of 2 MiB")
	require.Equal(t, small+512, alloc(m, 100), "small ones lie in one page")

	require.NoError(t, m.MemFree(0, b))
	require.Equal(t, b, alloc(m, 4*mib), "the smallest gap that fits, not the end of the block")
	const kernels = 416 * mib
	next := alloc(m, 20*mib)
	require.Equal(t, a-kernels-32*mib, next, "the second block lies below the room of the driver")
	require.Equal(t, next+20*mib, alloc(m, 2*mib), "the newest block has a gap, and so has the first")
	large := alloc(m, 33*mib)
	require.Equal(t, next-64*mib, large, "a block has whole 32 MiB")
	require.NoError(t, m.MemFree(0, large))
	require.Equal(t, next-32*mib, alloc(m, 20*mib), "a block without allocations is returned")
}

func TestBytesInUseElsewhereAreNotFree(t *testing.T) {
	m := retained(t, "T4:8GiB", simulated.Options{UsedBytes: 3 << 30})
	free, total, err := m.MemGetInfo(0)
	require.NoError(t, err)
	require.Equal(t, uint64(5)<<30, free)
	require.Equal(t, uint64(8)<<30, total)
	_, err = m.MemAlloc(0, 5<<30+1)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	alloc(m, 5<<30)
}

func TestVisibleRenumbersAndKeepsIdentity(t *testing.T) {
	whole := attempt.Get(newMachine(t, "H100,T4,K40", simulated.Options{}).Devices())
	some := attempt.Get(newMachine(t, "H100,T4,K40", simulated.Options{Visible: []int{2, 0}}).Devices())
	require.Len(t, some, 2)
	for ordinal, slot := range []int{2, 0} {
		want := whole[slot]
		want.Ordinal = ordinal
		require.Equal(t, want, some[ordinal])
	}
	require.Empty(t, attempt.Get(newMachine(t, "H100,T4,K40", simulated.Options{Visible: []int{}}).Devices()))
}

// residentBytes returns this process's resident memory, without Go's garbage.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	text := attempt.Get(os.ReadFile("/proc/self/statm"))
	var size, resident int64
	attempt.Get(fmt.Sscan(string(text), &size, &resident))
	return resident * int64(os.Getpagesize())
}

func TestMemoryIsCommittedWhenTouched(t *testing.T) {
	m := retained(t, "H100-80GB:80GiB", simulated.Options{})
	before := residentBytes(t)
	addr := alloc(m, 80<<30)
	require.Less(t, residentBytes(t)-before, int64(32*mib), "80 GiB allocated, none touched")

	require.NoError(t, m.MemsetD8(0, addr+40<<30, 1, 256*mib))
	require.Greater(t, residentBytes(t)-before, int64(200*mib), "256 MiB touched")
	require.NoError(t, m.MemFree(0, addr))
	require.Less(t, residentBytes(t)-before, int64(64*mib), "freed memory goes back to the host")
}

func TestSmallAllocationsGoBackToTheHostToo(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	before := residentBytes(t)
	const size, count = 12300, 4000 // not a multiple of the page
	addrs := make([]uint64, count)
	for i := range addrs {
		addrs[i] = alloc(m, size)
		require.NoError(t, m.MemsetD8(0, addrs[i], 1, size))
	}
	require.Greater(t, residentBytes(t)-before, int64(40*mib))
	for i := range addrs { // even ones first: then adjacent ones free pages together
		require.NoError(t, m.MemFree(0, addrs[(i*2)%count+i*2/count]))
	}
	require.Less(t, residentBytes(t)-before, int64(16*mib))
}

// view returns the memory at a device address, as a user of a host-visible machine accesses it. Inlining it
// would crash the compiler.
//
//go:noinline
func view(addr, size uint64) []byte {
	number := uintptr(addr)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&number)), size)
}

func TestDeviceAddressesAreHostAddresses(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	require.True(t, m.HostVisible())
	addr := alloc(m, 1000)
	copy(view(addr, 1000), "written by the host")
	got := make([]byte, 19)
	require.NoError(t, m.MemcpyDtoH(0, got, addr))
	require.Equal(t, "written by the host", string(got))
	require.NoError(t, m.MemcpyHtoD(0, addr+3, []byte("XYZ")))
	require.Equal(t, "wriXYZ", string(view(addr, 6)))
}

func TestAStaleViewNeverFaults(t *testing.T) {
	for _, size := range []uint64{100, 5000, 8 * mib} {
		m := retained(t, "T4", simulated.Options{})
		addr := alloc(m, size)
		stale := view(addr, size)
		stale[0], stale[size-1] = 1, 2
		require.NoError(t, m.MemFree(0, addr))
		require.Len(t, bytes.Clone(stale), int(size))
		stale[0], stale[size-1] = 3, 4

		require.NoError(t, m.ContextRelease(0))
		require.Len(t, bytes.Clone(stale), int(size), "after the end of the context")
		stale[size/2] = 5
	}
}

// TestFreeingLeavesTheNeighborsBytes frees the middle one of three allocations that share pages.
func TestFreeingLeavesTheNeighborsBytes(t *testing.T) {
	for _, size := range []uint64{256, 5000, 20000} {
		m := retained(t, "T4", simulated.Options{})
		var addrs [3]uint64
		for i := range addrs {
			addrs[i] = alloc(m, size)
			require.NoError(t, m.MemsetD8(0, addrs[i], byte(i+1), size))
		}
		require.NoError(t, m.MemFree(0, addrs[1]))
		require.Equal(t, bytes.Repeat([]byte{1}, int(size)), view(addrs[0], size))
		require.Equal(t, bytes.Repeat([]byte{3}, int(size)), view(addrs[2], size))
	}
}

func TestFreedPagesReadAsZero(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	const size = 8 * mib
	addr := alloc(m, size)
	require.NoError(t, m.MemsetD8(0, addr, 0xff, size))
	require.NoError(t, m.MemFree(0, addr))
	require.Equal(t, make([]byte, size), view(addr, size))
}
