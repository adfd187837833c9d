package devmgr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
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
	must.OK(m.Initialize(nil, "", nil))(t)
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

// Many regions, on four logical GPUs of two cards.
func TestFreesGoByPointer(t *testing.T) {
	m, _ := initialized(t, "2xT4", simulated.Options{NoVMM: true}, config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
		[]float64{4000, 4000}, []float64{4000, 4000})
	random := rand.New(rand.NewPCG(1, 2))
	type held struct {
		number int
		block  bfc.Block
	}
	var live []held
	var want [4]uint64
	for range 400 {
		number := random.IntN(4)
		block := allocate(t, m, number, 1+random.Uint64N(16*mib))
		live = append(live, held{number, block})
		want[number] += block.Bytes
	}
	regions := 0
	for _, name := range []string{"GPU:0", "GPU:1", "GPU:2", "GPU:3"} {
		regions += len(must.OK(m.MemoryMap(name))(t).Regions)
	}
	require.Greater(t, regions, 20)

	random.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	for i, h := range live {
		if i%2 == 0 {
			require.NoError(t, m.Free(h.block.Addr))
		} else {
			require.NoError(t, m.FreeID(h.block.Addr, h.block.ID))
		}
		want[h.number] -= h.block.Bytes
		for number, name := range []string{"GPU:0", "GPU:1", "GPU:2", "GPU:3"} {
			require.Equal(t, want[number], stats(t, m, name).BytesInUse, name)
		}
	}
}

func TestAddressesThatAreNoBlock(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10, 10})
	block, other := allocate(t, m, 0, 1000), allocate(t, m, 1, 1000)
	freed := allocate(t, m, 0, 1000)
	require.NoError(t, m.Free(freed.Addr))
	picture := must.OK(m.MemoryMap("GPU:0"))(t)
	region := picture.Regions[0]
	before := []bfc.Stats{stats(t, m, "GPU:0"), stats(t, m, "GPU:1")}
	frees := must.OK(m.Frees(0))(t)
	for name, addr := range map[string]uint64{
		"of no pool":           0x1000,
		"the last one":         math.MaxUint64,
		"inside a block":       block.Addr + 256,
		"one byte off":         block.Addr + 1,
		"the block's end":      block.Addr + block.Bytes,
		"freed before":         freed.Addr,
		"before the region":    region.Addr - 1,
		"the region's last":    region.Addr + region.Bytes - 1,
		"far behind":           region.Addr + 1<<40,
		"between other blocks": other.Addr + 512,
	} {
		t.Run(name, func(t *testing.T) {
			must.Fail(t, status.InvalidArgument, m.Free(addr))
			must.Fail(t, status.InvalidArgument, m.FreeID(addr, block.ID))
			must.Fail(t, status.InvalidArgument, m.CopyFromHost(addr, block.ID, 0, []byte{1}))
			must.Fail(t, status.InvalidArgument, m.CopyToHost(addr, block.ID, 0, nil))
		})
	}
	must.Fail(t, status.InvalidArgument, m.FreeID(block.Addr, block.ID+1))
	must.Fail(t, status.InvalidArgument, m.FreeID(0, 1))
	require.Equal(t, before, []bfc.Stats{stats(t, m, "GPU:0"), stats(t, m, "GPU:1")})
	require.Equal(t, frees, must.OK(m.Frees(0))(t), "a call that frees nothing wakes no waiter")
}

func TestStaleBlockIsNotFreed(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10})
	stale := allocate(t, m, 0, 1000)
	require.NoError(t, m.FreeID(stale.Addr, stale.ID))
	block := allocate(t, m, 0, 1000)
	require.Equal(t, stale.Addr, block.Addr)
	must.Fail(t, status.InvalidArgument, m.FreeID(stale.Addr, stale.ID))
	require.EqualValues(t, 1, stats(t, m, "GPU:0").LiveBlocks)
	require.NoError(t, m.FreeID(block.Addr, block.ID))
}

// A released region gives up its addresses, even if another logical GPU gets the same memory.
func TestOwnersFollowRegions(t *testing.T) {
	env := config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
	m, _ := initialized(t, "T4:32MiB", simulated.Options{NoVMM: true}, env, []float64{10, 10, 10})
	gone := allocate(t, m, 0, mib)
	require.NoError(t, m.Free(gone.Addr))
	between := allocate(t, m, 1, mib)
	big := allocate(t, m, 0, 9*mib) // releases the first region
	must.Fail(t, status.InvalidArgument, m.Free(gone.Addr))

	heir := allocate(t, m, 2, mib)
	require.Equal(t, gone.Addr, heir.Addr, "the same memory, now of GPU:2")
	require.NoError(t, m.Check())
	for number, block := range []bfc.Block{big, between, heir} {
		require.NoError(t, m.Free(block.Addr))
		require.Zero(t, stats(t, m, []string{"GPU:0", "GPU:1", "GPU:2"}[number]).LiveBlocks)
	}
}

func TestAllocatingNothing(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{10})
	block := allocate(t, m, 0, 0)
	require.Equal(t, bfc.Block{}, block)
	require.NoError(t, m.Free(block.Addr))
	require.NoError(t, m.FreeID(block.Addr, block.ID))
	require.Zero(t, d.taken(t, 0))
	for _, number := range []int{-1, 1, math.MaxInt, math.MinInt} {
		must.Fail(t, status.InvalidArgument, must.Err(m.Allocate(number, 0, 0)),
			": this process has 1 logical GPU (GPU:0 to GPU:0)")
	}
}
