package devmgr_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestCopies(t *testing.T) {
	m, _ := initialized(t, "2xT4", simulated.Options{}, nil)
	require.True(t, m.HostVisible())
	block := allocate(t, m, 1, 1000)
	sent, got := make([]byte, 600), make([]byte, 600)
	for i := range sent {
		sent[i] = byte(i)
	}
	require.NoError(t, m.CopyFromHost(block.Addr, block.ID, 400, sent))
	require.NoError(t, m.CopyToHost(block.Addr, block.ID, 400, got))
	require.Equal(t, sent, got)
	require.NoError(t, m.CopyToHost(block.Addr, block.ID, 1000, nil), "nothing fits at the end")
	for _, offset := range []uint64{401, 1000, 1024, 1 << 63, math.MaxUint64, math.MaxUint64 - block.Addr + 1} {
		must.Fail(t, status.InvalidArgument, m.CopyFromHost(block.Addr, block.ID, offset, sent),
			"does not fit in the buffer's 1000 bytes")
		must.Fail(t, status.InvalidArgument, m.CopyToHost(block.Addr, block.ID, offset, got))
	}
	require.Equal(t, sent, got)
}

// A freed buffer has nothing to do with the block that has its address now.
func TestCopyOfAStaleBlock(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10})
	stale := allocate(t, m, 0, 1000)
	require.NoError(t, m.Free(stale.Addr))
	heir := allocate(t, m, 0, 1000)
	require.Equal(t, stale.Addr, heir.Addr)
	require.NoError(t, m.CopyFromHost(heir.Addr, heir.ID, 0, []byte("mine")))
	must.Fail(t, status.InvalidArgument, m.CopyFromHost(stale.Addr, stale.ID, 0, []byte("evil")),
		"is not the address of a live block: it was already freed")
	got := make([]byte, 4)
	must.Fail(t, status.InvalidArgument, m.CopyToHost(stale.Addr, stale.ID, 0, got))
	require.NoError(t, m.CopyToHost(heir.Addr, heir.ID, 0, got))
	require.Equal(t, "mine", string(got))
}

// meddler runs a function in the middle of a copy to a GPU.
type meddler struct {
	gpu.Driver
	meddle func()
}

func (d *meddler) MemcpyHtoD(ordinal int, dst uint64, src []byte) error {
	d.meddle()
	return d.Driver.MemcpyHtoD(ordinal, dst, src)
}

// A copy does not delay a free of its block by another thread; but the copy reports it.
func TestFreeInTheMiddleOfACopy(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	during := &meddler{Driver: d}
	m, err := devmgr.New(during, nil)
	require.NoError(t, err)
	require.NoError(t, m.Initialize(nil, ""))
	var block, heir bfc.Block
	for name, meddle := range map[string]func(){
		"freed":               func() { require.NoError(t, m.Free(block.Addr)) },
		"freed and given out": func() { require.NoError(t, m.Free(block.Addr)); heir = allocate(t, m, 0, 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			block, heir = allocate(t, m, 0, 1000), bfc.Block{}
			during.meddle = meddle
			must.Fail(t, status.InvalidArgument, m.CopyFromHost(block.Addr, block.ID, 0, []byte("late")),
				"was freed while 4 bytes of it were being copied")
			require.NoError(t, m.FreeID(heir.Addr, heir.ID))
		})
	}
	require.NoError(t, m.Close(false))
	d.requireNothingLeft(t)
}
