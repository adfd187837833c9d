package bfc_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// A process with a limit on address space (ulimit -v) gets shorter tables. When they are full, allocations fail with an
// error that says so, and everything else keeps working.
func TestLittleAddressSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	if os.Getenv("BFC_LITTLE_ADDRESS_SPACE") != "" {
		fillTables(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestLittleAddressSpace$")
	child.Env = append(os.Environ(), "BFC_LITTLE_ADDRESS_SPACE=1", "GOGC=off")
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func fillTables(t *testing.T) {
	sub := suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 1 << 40})
	a, lift := newAllocatorInLittle(t, sub)
	blocks := make([]bfc.Block, 0, 100)
	for {
		block, err := a.Allocate(1)
		if err != nil {
			lift() // the rest of the test needs no limit
			must.Fail(t, status.ResourceExhausted, err, "host is out of memory")
			break
		}
		if len(blocks) < cap(blocks) {
			blocks = append(blocks, block)
		}
	}
	require.Len(t, blocks, cap(blocks))
	require.NoError(t, a.Check())
	for _, b := range blocks {
		require.NoError(t, a.FreeID(b.Addr, b.ID))
	}
	require.NoError(t, a.Check())
	allocate(t, a, 256) // the freed blocks were adjacent, so their records are available again
}

// newAllocatorInLittle returns an allocator that was made with little address space, which stays little until lift is
// called. Go's runtime must not need any of it: a heap that cannot grow ends the process, and it grows by up to 64 MiB.
// So the heap gets free pages before. A thread that Go starts takes some address space, and then the allocator cannot
// be made: it gets more.
func newAllocatorInLittle(t *testing.T, sub bfc.SubAllocator) (a *bfc.Allocator, lift func()) {
	runtime.KeepAlive(make([]byte, 16<<20))
	runtime.GC()
	for spare := uint64(64 << 20); ; spare *= 2 {
		lift = limitAddressSpace(t, spare)
		a, err := bfc.New(sub, bfc.Options{})
		if err == nil {
			t.Cleanup(func() { require.NoError(t, a.Close()) })
			lift()
			return a, limitAddressSpace(t, spare) // for threads: the tables stay as short as they are
		}
		lift()
		require.Less(t, spare, uint64(1<<30), "%v", err)
	}
}

// limitAddressSpace leaves the process spare bytes beyond what it has mapped, until lift is called.
func limitAddressSpace(t *testing.T, spare uint64) (lift func()) {
	statm := must.OK(os.ReadFile("/proc/self/statm"))(t)
	var pages uint64
	must.OK(fmt.Sscan(string(statm), &pages))(t)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &before))
	low := unix.Rlimit{Cur: pages*uint64(os.Getpagesize()) + spare, Max: before.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &low))
	return func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &before)) }
}
