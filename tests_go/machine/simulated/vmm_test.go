package simulated_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/simulated"
)

const granule = 2 * mib

func reserve(m *simulated.Machine, granules uint64) uint64 {
	return attempt.Get(m.MemAddressReserve(granules*granule, 0))
}

func create(m *simulated.Machine, granules uint64) gpu.Handle {
	return attempt.Get(m.MemCreate(0, granules*granule))
}

// mapped maps a new handle, accessible to GPU 0.
func mapped(t testing.TB, m *simulated.Machine, addr, granules uint64) gpu.Handle {
	t.Helper()
	handle := create(m, granules)
	require.NoError(t, m.MemMap(addr, granules*granule, handle))
	require.NoError(t, m.MemSetAccess(0, addr, granules*granule))
	return handle
}

func TestAccessDoesNotComeBackByItself(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	base := reserve(m, 1)
	handle := mapped(t, m, base, 1)
	require.NoError(t, m.MemUnmap(base, granule))
	require.NoError(t, m.MemMap(base, granule, handle))
	require.ErrorIs(t, m.MemsetD8(0, base, 1, 1), gpu.ErrorInvalidValue)
}

func TestOneHandleIsTheSameMemoryForTheHost(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	base := reserve(m, 3)
	handle := mapped(t, m, base, 1)
	require.NoError(t, m.MemMap(base+2*granule, granule, handle))
	require.NoError(t, m.MemSetAccess(0, base+2*granule, granule))
	here, there := view(base, granule), view(base+2*granule, granule)
	here[5], there[granule-1] = 50, 60
	require.Equal(t, []byte{50, 60}, []byte{there[5], here[granule-1]})
}

// TestBytesStayThroughEveryPlace moves four handles between places.
func TestBytesStayThroughEveryPlace(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	const count = 4
	base := reserve(m, 2*count)
	var handles [count]gpu.Handle
	for i := range handles {
		handles[i] = mapped(t, m, base+uint64(i)*granule, 1)
		require.NoError(t, m.MemsetD8(0, base+uint64(i)*granule, byte(i+1), granule))
	}
	at := [count]uint64{0, 1, 2, 3}
	for round := range 100 {
		i := round % count
		require.NoError(t, m.MemUnmap(base+at[i]*granule, granule))
		at[i] = (at[i] + count) % (2 * count)
		require.NoError(t, m.MemMap(base+at[i]*granule, granule, handles[i]))
		require.NoError(t, m.MemSetAccess(0, base+at[i]*granule, granule))
		for j := range handles {
			memory := view(base+at[j]*granule, granule)
			require.Equal(t, [2]byte{byte(j + 1), byte(j + 1)}, [2]byte{memory[0], memory[granule-1]})
		}
	}
}

func TestAStaleViewOfAMappingIsHarmless(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	base := reserve(m, 4)
	handle := mapped(t, m, base, 2)
	stale := view(base, 2*granule)
	stale[0], stale[2*granule-1] = 1, 2
	require.NoError(t, m.MemUnmap(base, 2*granule))
	stale[0], stale[granule] = 99, 99 // has no effect on other memory

	require.NoError(t, m.MemMap(base+2*granule, 2*granule, handle))
	require.NoError(t, m.MemSetAccess(0, base+2*granule, 2*granule))
	moved := view(base+2*granule, 2*granule)
	require.Equal(t, []byte{1, 0, 2}, []byte{moved[0], moved[granule], moved[2*granule-1]})
	require.NoError(t, m.MemUnmap(base+2*granule, 2*granule))
	require.NoError(t, m.MemRelease(handle))
	require.NoError(t, m.MemAddressFree(base, 4*granule))
	require.Len(t, bytes.Clone(stale), 2*granule)
	require.Zero(t, moved[5])
	require.NoError(t, m.ContextRelease(0))
	stale[1], moved[1] = 3, 4
}

// fileBytes returns the size of the files that hold physical memory.
func fileBytes(t *testing.T) (sum int64) {
	t.Helper()
	open := attempt.Get(os.ReadDir("/proc/self/fd"))
	for _, entry := range open {
		path := "/proc/self/fd/" + entry.Name()
		target, _ := os.Readlink(path)
		if !strings.HasPrefix(target, "/memfd:gpuconf-simulated-gpu") {
			continue
		}
		var stat unix.Stat_t
		require.NoError(t, unix.Stat(path, &stat))
		sum += stat.Blocks * 512
	}
	return sum
}

func TestPhysicalMemoryGoesBackToTheHost(t *testing.T) {
	m := retained(t, "H100-80GB", simulated.Options{})
	const granules = 64
	before := residentBytes(t)
	base := reserve(m, granules)
	handle := mapped(t, m, base, granules)
	require.Less(t, residentBytes(t)-before, int64(32*mib), "nothing is touched yet")
	require.NoError(t, m.MemsetD8(0, base, 1, granules*granule))
	require.Greater(t, residentBytes(t)-before, int64(100*mib))
	require.NoError(t, m.MemUnmap(base, granules*granule))
	require.Less(t, residentBytes(t)-before, int64(32*mib), "unmapped, though still held")

	require.NoError(t, m.MemMap(base, granules*granule, handle))
	require.NoError(t, m.MemSetAccess(0, base, granules*granule))
	require.Equal(t, byte(1), view(base, granules*granule)[granules*granule-1])
	require.NoError(t, m.MemRelease(handle))
	require.GreaterOrEqual(t, fileBytes(t), int64(granules*granule))
	require.NoError(t, m.MemUnmap(base, granules*granule))
	require.Zero(t, fileBytes(t), "it is unreachable")
	fresh := mapped(t, m, base, granules)
	require.Equal(t, make([]byte, granule), view(base, granule), "pages come back empty")
	require.NoError(t, m.MemRelease(fresh))
}

func TestPhysicalMemoryAndAllocationsShareTheCard(t *testing.T) {
	m := retained(t, "T4:9MiB", simulated.Options{})
	handle := create(m, 2)
	require.Equal(t, uint64(5*mib), freeBytes(t, m))
	last := alloc(m, 5*mib)
	_, err := m.MemCreate(0, granule)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	require.NoError(t, m.MemFree(0, last))
	create(m, 2)
	_, err = m.MemAlloc(0, mib+1)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	require.NoError(t, m.MemRelease(handle))
	alloc(m, 5*mib)
	require.Zero(t, freeBytes(t, m))
}

// hostMappings counts the host's mappings in a range.
func hostMappings(t *testing.T, addr, size uint64) (count int) {
	t.Helper()
	text := attempt.Get(os.ReadFile("/proc/self/maps"))
	for line := range strings.Lines(string(text)) {
		var begin, end uint64
		attempt.Get(fmt.Sscanf(line, "%x-%x", &begin, &end))
		if begin < addr+size && addr < end {
			count++
		}
	}
	return count
}

func TestGranulesMadeInOrderCostOneHostMapping(t *testing.T) {
	m := retained(t, "H100-80GB", simulated.Options{})
	const granules = 2000
	base := reserve(m, granules)
	for i := range uint64(granules) {
		mapped(t, m, base+i*granule, 1)
	}
	require.LessOrEqual(t, hostMappings(t, base, granules*granule), 2)
	for i := uint64(0); i < granules; i += 2 {
		require.NoError(t, m.MemUnmap(base+i*granule, granule))
	}
	require.LessOrEqual(t, hostMappings(t, base, granules*granule), granules+2)
	for i := uint64(1); i < granules; i += 2 {
		require.NoError(t, m.MemUnmap(base+i*granule, granule))
	}
	require.LessOrEqual(t, hostMappings(t, base, granules*granule), 2)
}

func TestReservationsAreReused(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	first := reserve(m, 4)
	require.NoError(t, m.MemAddressFree(first, 4*granule))
	for range 20000 { // more ranges than a host could have mappings for
		addr := reserve(m, 4)
		require.Equal(t, first, addr)
		require.NoError(t, m.MemAddressFree(addr, 4*granule))
	}
	aligned := attempt.Get(m.MemAddressReserve(granule, 1<<35))
	require.Zero(t, aligned%(1<<35))
}

func TestManySmallReservations(t *testing.T) {
	m := newMachine(t, "T4", simulated.Options{})
	previous := uint64(0)
	for range 5000 {
		addr := reserve(m, 1)
		require.Greater(t, addr, previous)
		previous = addr
	}
}

func TestLargeReservationsCostNothing(t *testing.T) {
	m := newMachine(t, "8xH200", simulated.Options{})
	before := residentBytes(t)
	for range 8 {
		require.NotZero(t, attempt.Get(m.MemAddressReserve(8*141<<30, 0)))
	}
	require.Less(t, residentBytes(t)-before, int64(32*mib))
}

func TestVirtualMemoryOutlivesTheContext(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	base := reserve(m, 1)
	handle := mapped(t, m, base, 1)
	require.NoError(t, m.MemsetD8(0, base, 5, granule))
	require.NoError(t, m.ContextRelease(0))
	require.Equal(t, simulated.Inventory{Reservations: 1, Handles: 1, Mappings: 1}, m.Inventory())
	require.ErrorIs(t, m.MemsetD8(0, base, 1, 1), gpu.ErrorInvalidContext)
	require.Equal(t, byte(5), view(base, granule)[granule-1])
	require.NoError(t, m.MemUnmap(base, granule))
	require.NoError(t, m.MemRelease(handle))
	require.NoError(t, m.MemAddressFree(base, granule))
	require.Zero(t, m.Inventory())
}

func TestMachinesAtTheSameTimeShareNoReservation(t *testing.T) {
	a, b := retained(t, "T4", simulated.Options{}), retained(t, "T4", simulated.Options{})
	for range 3 {
		here, there := reserve(a, 4), reserve(b, 4)
		mapped(t, a, here, 1)
		mapped(t, b, there, 1)
		require.NoError(t, a.MemsetD8(0, here, 1, granule))
		require.NoError(t, b.MemsetD8(0, there, 2, granule))
		require.Equal(t, byte(1), view(here, 1)[0])
	}
}
