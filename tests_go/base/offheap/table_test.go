package offheap_test

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/offheap"
	"gpuconf/gocore/base/status"
	"gpuconf/tests_go/must"
)

const mib = 1 << 20

// memory returns the address space and the committed memory of this process, in bytes.
func memory(t *testing.T) (space, committed int) {
	words := bytes.Fields(must.OK(os.ReadFile("/proc/self/statm"))(t))
	space = must.OK(strconv.Atoi(string(words[0])))(t)
	committed = must.OK(strconv.Atoi(string(words[1])))(t)
	return space * os.Getpagesize(), committed * os.Getpagesize()
}

// tableOf maps a table, and ends it with the test.
func tableOf[T any](t *testing.T, length int) []T {
	table := must.OK(offheap.Map[T]("a table of a test", length))(t)
	t.Cleanup(func() { require.NoError(t, offheap.Unmap(table)) })
	require.Len(t, table, length)
	return table
}

// limitSpace leaves this process so many bytes of address space, until the test ends.
func limitSpace(t *testing.T, left int) {
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &before))
	space, _ := memory(t)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: uint64(space + left), Max: before.Max}))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &before)) })
}

func TestATableIsZeroAndKeepsWhatIsWritten(t *testing.T) {
	type entry struct {
		number uint32
		text   [5]byte
	}
	table := tableOf[entry](t, 1_000_000)
	last := len(table) - 1
	for _, i := range []int{0, 1, 4095, 500_000, last} {
		require.Zero(t, table[i])
		table[i] = entry{uint32(i) + 1, [5]byte{1, 2, 3, 4, 5}}
	}
	pointer := &table[last]
	runtime.GC()
	require.Equal(t, entry{uint32(last) + 1, [5]byte{1, 2, 3, 4, 5}}, *pointer)
	require.Equal(t, entry{1, [5]byte{1, 2, 3, 4, 5}}, table[0])
	require.Zero(t, table[2])
}

// A table may be far longer than its part that is in use: it takes address space, and memory only where it is touched.
func TestOnlyWhatIsTouchedIsCommitted(t *testing.T) {
	space, before := memory(t)
	table := tableOf[uint64](t, 4<<30/8)
	spaceNow, now := memory(t)
	require.GreaterOrEqual(t, spaceNow-space, 4<<30)
	require.Less(t, now-before, 64*mib)
	for i := 0; i < len(table)/32; i += 256 {
		table[i] = 1
	}
	_, now = memory(t)
	require.Greater(t, now-before, 96*mib, "128 MiB of it are in use")
	require.Less(t, now-before, 256*mib)
}

// Go's heap has neither a table nor, where elements are large, one element.
func TestATableIsOutsideTheHeap(t *testing.T) {
	type large [64 * mib]byte
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	table := tableOf[large](t, 16)
	offheap.Warm(table, 0, 1)
	runtime.ReadMemStats(&now)
	require.Less(t, now.TotalAlloc-before.TotalAlloc, uint64(mib))
	require.Less(t, now.Sys-before.Sys, uint64(64*mib))
}

func TestATableThatCannotBeMapped(t *testing.T) {
	limitSpace(t, 256*mib)
	table, err := offheap.Map[uint64]("a table of a test", 1<<30)
	require.Nil(t, table)
	require.Equal(t, status.ResourceExhausted, status.CodeOf(err), "%v", err)
	require.EqualError(t, err,
		"the host is out of memory for a table of a test of 1073741824 entries: cannot allocate memory")
	require.ErrorIs(t, err, unix.ENOMEM)
}

func TestATableIsAsLongAsItMayBe(t *testing.T) {
	table := must.OK(offheap.MapUpTo[uint64]("a table of a test", 32*mib, 1000))(t)
	require.Len(t, table, 32*mib)
	require.NoError(t, offheap.Unmap(table))
}

// Under a limit on address space a table is shorter, and leaves as much address space as it takes.
func TestAShorterTableLeavesAddressSpace(t *testing.T) {
	const left = 1 << 30
	limitSpace(t, left)
	table := must.OK(offheap.MapUpTo[uint64]("a table of a test", 1<<40, 1000))(t)
	require.GreaterOrEqual(t, len(table), left/8/8)
	require.LessOrEqual(t, len(table), left/8/2)
	table[len(table)-1] = 1
	tableOf[uint64](t, len(table)) // something else
	require.NoError(t, offheap.Unmap(table))
}

// The least length counts more than what is left: a table that has it is returned, and one that cannot is an error.
func TestATableIsNeverShorterThanTheLeast(t *testing.T) {
	limitSpace(t, 500*mib)
	const least, tooMany = 384 * mib / 8, 600 * mib / 8
	table := must.OK(offheap.MapUpTo[uint64]("a table of a test", 1<<40, least))(t)
	require.Len(t, table, least)
	require.NoError(t, offheap.Unmap(table))
	_, err := offheap.MapUpTo[uint64]("a table of a test", 1<<40, tooMany)
	require.Equal(t, status.ResourceExhausted, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "of 78643200 entries", "the length that was tried last")
}

// Warm commits its part, wherever that begins, and changes nothing.
func TestWarm(t *testing.T) {
	table := tableOf[[24]byte](t, 64*mib/24)
	const from, to = 22*mib/24 + 1, 54 * mib / 24
	table[from], table[to-1] = [24]byte{1}, [24]byte{2}
	_, before := memory(t)
	offheap.Warm(table, from, to)
	_, now := memory(t)
	if page := tableOf[byte](t, os.Getpagesize()); unix.Madvise(page, unix.MADV_POPULATE_WRITE) == nil { // Linux 5.14
		require.Greater(t, now-before, 24*mib)
	}
	require.Less(t, now-before, 48*mib)
	require.Equal(t, [][24]byte{{1}, {2}}, [][24]byte{table[from], table[to-1]})
	require.Zero(t, table[from+1])
}

func TestUnmapReturnsTheMemory(t *testing.T) {
	table := must.OK(offheap.Map[uint64]("a table of a test", 1<<27))(t)
	offheap.Warm(table, 0, 1<<24)
	all := unsafe.Slice((*byte)(unsafe.Pointer(&table[0])), 1<<30)
	require.NoError(t, unix.Msync(all, unix.MS_ASYNC))
	_, committed := memory(t)
	require.NoError(t, offheap.Unmap(table))
	_, now := memory(t)
	// The size of the address space does not say it: a thread that the runtime starts meanwhile takes 72 MiB.
	require.ErrorIs(t, unix.Msync(all, unix.MS_ASYNC), unix.ENOMEM, "the addresses are mapped")
	require.LessOrEqual(t, now, committed)
	require.NoError(t, offheap.Unmap[uint64](nil), "nil is no table")
}
