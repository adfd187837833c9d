package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// A thread without a scope, such as autograd's workers, runs in the stream of the scope that its work comes from.
func TestAStreamOfItsOwnTellsWhoseMemoryItIs(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{100, 100, 100}, []float64{100})
	first := must.OK(m.StreamOf(0))(t)
	require.Equal(t, gpu.StreamNull, first, "the first of an ordinal gets what no other one claims")
	second := must.OK(m.StreamOf(1))(t)
	require.Greater(t, second, gpu.StreamPerThread)
	require.Equal(t, second, must.OK(m.StreamOf(1))(t))
	third := must.OK(m.StreamOf(2))(t)
	require.NotEqual(t, second, third)

	others := must.OK(d.machine.StreamCreate(0, gpu.StreamNonBlocking, 0))(t)
	for name, row := range map[string]struct {
		ordinal, scope int
		stream         gpu.Stream
		want           int
	}{
		"the stream's GPU":                 {0, -1, second, 1},
		"another stream's GPU":             {0, -1, third, 2},
		"the scope comes first":            {0, 2, second, 2},
		"also the scope of the first":      {0, 0, second, 0},
		"a scope elsewhere counts as none": {0, 3, third, 2},
		"a stream of the program":          {0, -1, others, 0},
		"the null stream":                  {0, -1, gpu.StreamNull, 0},
		"the per-thread stream":            {0, -1, gpu.StreamPerThread, 0},
		"a stream of another ordinal":      {1, -1, second, 3},
	} {
		require.Equal(t, row.want, serving(t, m, row.ordinal, row.scope, row.stream), name)
	}
	block := must.OK(m.AllocateKnowing(0, -1, second, devmgr.Lasting, 1000, 0))(t)
	require.EqualValues(t, 1, stats(t, m, "GPU:1").LiveBlocks)
	require.NoError(t, m.Free(block.Addr))
	must.Fail(t, status.InvalidArgument, must.Err(m.StreamOf(4)))
}

func TestAStreamOfItsOwnHasThePriorityOfItsDevice(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := enumerated(t, d, nil)
	limit, urgent, normal := 100.0, int64(-2), int64(0)
	require.NoError(t, m.Configure(func(s *config.State) error {
		return s.SetLogicalConfigs(config.Arg{Device: s.Physical()[1]},
			config.LogicalConfigs{Items: []config.LogicalConfig{
				{MemoryLimitMiB: &limit, Priority: &normal}, {MemoryLimitMiB: &limit, Priority: &urgent},
			}})
	}))
	require.NoError(t, m.Initialize(nil, ""))
	require.Equal(t, -2, must.OK(d.machine.StreamGetPriority(0, must.OK(m.StreamOf(1))(t)))(t))
}

func TestTrimGivesBackWhatNoBlockLiesIn(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{100, 50})
	block, kept := allocate(t, m, 0, 1), allocate(t, m, 1, 1)
	require.EqualValues(t, 150*mib, d.taken(t, 0))
	require.NoError(t, m.Free(block.Addr))
	require.EqualValues(t, 100*mib, must.OK(m.Trim())(t))
	require.EqualValues(t, 50*mib, d.taken(t, 0), "a region with a block stays")
	require.NoError(t, m.Free(kept.Addr))
}

func TestRegionIsTheDriversPieceAroundABlock(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{100})
	first, second := allocate(t, m, 0, 1000), allocate(t, m, 0, 1000)
	start, bytes := must.OK2(m.Region(second.Addr))(t)
	require.Equal(t, first.Addr, start)
	require.EqualValues(t, 100*mib, bytes)
	must.Fail(t, status.InvalidArgument, must.Err2(m.Region(start-1)))
	require.NoError(t, m.Free(first.Addr))
	require.NoError(t, m.Free(second.Addr))
}

func TestRecordStreamWantsALiveBlock(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil)
	stream := must.OK(m.StreamOf(0))(t)
	block := allocate(t, m, 0, 1000)
	require.NoError(t, m.RecordStream(block.Addr, stream))
	must.Fail(t, status.InvalidArgument, m.RecordStream(block.Addr+256, stream))
	require.NoError(t, m.Free(block.Addr))
	must.Fail(t, status.InvalidArgument, m.RecordStream(block.Addr, stream))
}

func TestAFractionIsKeptByTheLimitsOrRefused(t *testing.T) {
	m, _ := initialized(t, "2xT4:8GiB", simulated.Options{}, nil, []float64{1024, 1024}, []float64{8192})
	require.NoError(t, m.RequireFraction(0, 0.25))
	require.NoError(t, m.RequireFraction(1, 1))
	for _, row := range []struct {
		ordinal  int
		fraction float64
	}{{0, 0.2}, {1, 0.999}, {0, 0}} {
		must.Fail(t, status.FailedPrecondition, m.RequireFraction(row.ordinal, row.fraction),
			"gpuconf.configure(limit=")
	}
	must.Fail(t, status.InvalidArgument, m.RequireFraction(2, 0.5))
}
