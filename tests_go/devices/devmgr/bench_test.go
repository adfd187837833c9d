package devmgr_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// One iteration of a benchmark is an allocation and its free, among a hundred live blocks. The difference between the
// first row and the others is the cost of a Manager: its lock, the lookup of an address's pool, and the count of frees.

// device is a card as an upstream of suballoc.
type device struct{ *simulated.Machine }

func (d device) MemAlloc(bytes uint64) (uint64, error) { return d.Machine.MemAlloc(0, bytes) }
func (d device) MemFree(addr uint64) error             { return d.Machine.MemFree(0, addr) }

func BenchmarkAllocateFree(b *testing.B) {
	const limit = 1024
	b.Run("bfc alone", func(b *testing.B) {
		d := newDriver(b, "T4", simulated.Options{})
		require.NoError(b, d.machine.ContextRetain(0))
		a := must.OK(bfc.New(suballoc.NewRegions(device{d.machine}, suballoc.Options{LimitBytes: limit * mib}),
			bfc.Options{}))(b)
		defer func() { require.NoError(b, a.Close()) }()
		pairs(b, func(_ int, bytes uint64) (bfc.Block, error) { return a.Allocate(bytes) }, a.Free)
	})
	for _, gpus := range []int{1, 4} {
		b.Run(fmt.Sprintf("logical GPUs=%d", gpus), func(b *testing.B) {
			limits := make([]float64, gpus)
			for i := range limits {
				limits[i] = limit
			}
			m, _ := initialized(b, "T4", simulated.Options{}, nil, limits)
			pairs(b, func(i int, bytes uint64) (bfc.Block, error) { return m.Allocate(i%gpus, bytes, 0) }, m.Free)
		})
	}
}

func pairs(b *testing.B, allocate func(i int, bytes uint64) (bfc.Block, error), free func(addr uint64) error) {
	for i := range 100 {
		must.OK(allocate(i, 4*kib))(b)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		block, err := allocate(i, 64*kib)
		if err == nil {
			err = free(block.Addr)
		}
		if err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// The cost that a recording adds to an allocation and its free.
func BenchmarkRecorded(b *testing.B) {
	m, _ := initialized(b, "T4", simulated.Options{}, nil, []float64{1024})
	for _, recorded := range []bool{false, true, false, true} {
		b.Run(fmt.Sprintf("recorded=%v", recorded), func(b *testing.B) {
			if recorded {
				r := must.OK(trace.NewRecorder(1<<16, nil))(b)
				require.NoError(b, m.Record(r))
				defer func() {
					_, _ = m.StopRecording()
					require.NoError(b, r.Close())
				}()
			}
			pairs(b, func(_ int, bytes uint64) (bfc.Block, error) { return m.Allocate(0, bytes, 0) }, m.Free)
		})
	}
}
