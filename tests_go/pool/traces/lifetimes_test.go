package traces_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/pool/traces"
)

// A packing's optimum is known because it fills the rectangle that it was cut from.
func TestAPackingFillsItsRectangleAtEveryMoment(t *testing.T) {
	for _, guillotine := range []bool{true, false} {
		for seed := range uint64(20) {
			list := traces.Packing(seed, 300, guillotine)
			require.GreaterOrEqual(t, len(list), 300)
			moments, changes := map[uint64]bool{}, map[uint64]int64{}
			for _, l := range list {
				require.Less(t, l.Lower, l.Upper)
				require.NotZero(t, l.Bytes)
				require.Zero(t, l.Bytes%(2<<20))
				changes[l.Lower] += int64(l.Bytes)
				changes[l.Upper] -= int64(l.Bytes)
				moments[l.Lower], moments[l.Upper] = true, true
			}
			require.Greater(t, len(moments), 100)
			for moment, change := range changes {
				switch change {
				case traces.PackingBytes:
					require.Zero(t, moment)
				case -traces.PackingBytes:
					require.Positive(t, moment)
				default:
					require.Zero(t, change, "as much comes as goes at %d", moment)
				}
			}
			require.Equal(t, list, traces.Packing(seed, 300, guillotine))
			require.NotEqual(t, list, traces.Packing(seed+1, 300, guillotine))
			require.EqualValues(t, traces.PackingBytes, traces.Lifetimes("", list).PeakBytes)
		}
	}
}

func TestLifetimesFreeBeforeTheyAllocate(t *testing.T) {
	trace := traces.Lifetimes("two", []traces.Lifetime{{Lower: 5, Upper: 9, Bytes: 300},
		{Lower: 9, Upper: 10, Bytes: 200}, {Lower: 0, Upper: 9, Bytes: 100}})
	require.Equal(t, []traces.Op{{Block: 0, Bytes: 100}, {Block: 1, Bytes: 300}, {Block: 1}, {Block: 0},
		{Block: 0, Bytes: 200}, {Block: 0}}, trace.Ops)
	require.EqualValues(t, 400, trace.PeakBytes)
	require.Equal(t, 2, trace.Blocks)
}
