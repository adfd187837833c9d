package host_test

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/host"
	"gpuconf/tests_go/attempt"
)

func TestBlocksAreAlignedAndApart(t *testing.T) {
	var m host.Memory
	type block struct{ addr, id, bytes uint64 }
	var blocks []block
	var sum uint64
	for _, size := range []uint64{1, 3, 63, 64, 65, 1000, 4096, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		addr, id, err := m.Allocate(size)
		require.NoError(t, err)
		require.Zero(t, addr%host.Alignment)
		require.NoError(t, m.CopyFromHost(addr, id, 0, bytes.Repeat([]byte{byte(len(blocks) + 1)}, int(size))))
		blocks = append(blocks, block{addr, id, size})
		sum += size
	}
	runtime.GC()
	for i, b := range blocks {
		got := make([]byte, b.bytes)
		require.NoError(t, m.CopyToHost(b.addr, b.id, 0, got))
		require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, int(b.bytes)), got)
	}
	n, inUse := m.Stats()
	require.Equal(t, len(blocks), n)
	require.Equal(t, sum, inUse)
	for _, b := range blocks {
		require.NoError(t, m.Free(b.addr, b.id))
	}
	n, inUse = m.Stats()
	require.Zero(t, n)
	require.Zero(t, inUse)
}

func TestMisuseChangesNothing(t *testing.T) {
	var m host.Memory
	addr, id, err := m.Allocate(16)
	require.NoError(t, err)
	for name, call := range map[string]func() error{
		"free elsewhere":     func() error { return m.Free(addr+64, id) },
		"free inside":        func() error { return m.Free(addr+1, id) },
		"another's number":   func() error { return m.Free(addr, id+1) },
		"write beyond":       func() error { return m.CopyFromHost(addr, id, 1, make([]byte, 16)) },
		"write far beyond":   func() error { return m.CopyFromHost(addr, id, 1<<63, make([]byte, 1)) },
		"write to another":   func() error { return m.CopyFromHost(addr, id+1, 0, []byte{1}) },
		"read beyond":        func() error { return m.CopyToHost(addr, id, 0, make([]byte, 17)) },
		"read from nowhere":  func() error { return m.CopyToHost(0x1000, id, 0, make([]byte, 1)) },
		"write at an inside": func() error { return m.CopyFromHost(addr+8, id, 0, []byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, status.InvalidArgument, status.CodeOf(call()))
			n, inUse := m.Stats()
			require.Equal(t, 1, n)
			require.EqualValues(t, 16, inUse)
		})
	}
	require.NoError(t, m.Free(addr, id))
	require.Equal(t, status.InvalidArgument, status.CodeOf(m.Free(addr, id)), "a second free")
	require.NoError(t, m.Free(0, 0))
}

func TestNothingIsFree(t *testing.T) {
	var m host.Memory
	addr, id, err := m.Allocate(0)
	require.NoError(t, err)
	require.Zero(t, addr)
	require.Zero(t, id)
	require.NoError(t, m.CopyFromHost(0, 0, 0, nil))
	require.NoError(t, m.CopyToHost(0, 0, 0, nil))
}

func TestTooMuchIsAnErrorAndNotTheEnd(t *testing.T) {
	var m host.Memory
	for _, size := range []uint64{1 << 56, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		_, _, err := m.Allocate(size)
		require.Equal(t, status.ResourceExhausted, status.CodeOf(err), "%d", size)
		require.ErrorContains(t, err, " out of memory")
	}
	n, _ := m.Stats()
	require.Zero(t, n)
}

func TestCloseGivesAllBack(t *testing.T) {
	var m host.Memory
	for _, size := range []uint64{10, 2 << 20} {
		_, _, err := m.Allocate(size)
		require.NoError(t, err)
	}
	require.NoError(t, m.Close())
	n, inUse := m.Stats()
	require.Zero(t, n)
	require.Zero(t, inUse)
	_, _, err := m.Allocate(10)
	require.NoError(t, err)
	require.NoError(t, m.Close())
}

func TestFreedBlocksAreUsedAgain(t *testing.T) {
	for _, size := range []uint64{4 << 10, 1 << 20, 64 << 20} {
		var m host.Memory
		first, firstID, err := m.Allocate(size)
		require.NoError(t, err)
		require.NoError(t, m.Free(first, firstID))
		again, id, err := m.Allocate(size - size/10)
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.NotEqual(t, firstID, id)
		_, inUse := m.Stats()
		require.Equal(t, size-size/10, inUse)
		other, _, err := m.Allocate(size)
		require.NoError(t, err)
		require.NotEqual(t, first, other, "a block in use")
		require.NoError(t, m.Close())
	}
}

func TestFreedBlocksOfOtherSizesAreNotUsed(t *testing.T) {
	var m host.Memory
	addr, id, err := m.Allocate(2 << 20)
	require.NoError(t, err)
	require.NoError(t, m.Free(addr, id))
	small, _, err := m.Allocate(1 << 20)
	require.NoError(t, err)
	require.NotEqual(t, addr, small)
	require.NoError(t, m.Close())
}

// TestFewFreedBlocksAreKept measures the address space of this process: 100 blocks of 2 MiB, of which 32 may stay.
func TestFewFreedBlocksAreKept(t *testing.T) {
	addressSpace := func() int {
		text := attempt.Get(os.ReadFile("/proc/self/statm"))
		pages := attempt.Get(strconv.Atoi(strings.Fields(string(text))[0]))
		return pages * os.Getpagesize()
	}
	var m host.Memory
	before := addressSpace()
	ids := map[uint64]uint64{}
	for range 100 {
		addr, id, err := m.Allocate(2 << 20)
		require.NoError(t, err)
		ids[addr] = id
	}
	for addr, id := range ids {
		require.NoError(t, m.Free(addr, id))
	}
	require.Less(t, addressSpace()-before, 80<<20)
	require.NoError(t, m.Close())
	require.Less(t, addressSpace()-before, 16<<20)
}

func TestMemoryAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m host.Memory
		type block struct{ addr, id, bytes uint64 }
		var live []block
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(live) == 0 || rapid.Bool().Draw(t, "allocate") {
				size := rapid.Uint64Range(1, 3<<20).Draw(t, "size")
				addr, id, err := m.Allocate(size)
				require.NoError(t, err)
				for _, b := range live {
					require.True(t, addr+size <= b.addr || b.addr+b.bytes <= addr, "two blocks overlap")
				}
				live = append(live, block{addr, id, size})
			} else {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				require.NoError(t, m.Free(live[i].addr, live[i].id))
				live = append(live[:i], live[i+1:]...)
			}
			var sum uint64
			for _, b := range live {
				sum += b.bytes
			}
			n, inUse := m.Stats()
			require.Equal(t, len(live), n)
			require.Equal(t, sum, inUse)
		}
		require.NoError(t, m.Close())
	})
}

func TestManyAtOnce(t *testing.T) {
	var m host.Memory
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := range 200 {
				content := bytes.Repeat([]byte{byte(worker)}, 1+i*13)
				addr, id, err := m.Allocate(uint64(len(content)))
				if err != nil || m.CopyFromHost(addr, id, 0, content) != nil {
					t.Error("no block", err)
					return
				}
				got := make([]byte, len(content))
				if m.CopyToHost(addr, id, 0, got) != nil || !bytes.Equal(got, content) || m.Free(addr, id) != nil {
					t.Error("another block's bytes")
					return
				}
			}
		})
	}
	wait.Wait()
	n, _ := m.Stats()
	require.Zero(t, n)
}
