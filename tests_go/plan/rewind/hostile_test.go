package rewind_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/rewind"
)

// A record in which anything has been altered gets a verdict: no panic, and no address counts twice.
func TestHostileRecords(t *testing.T) {
	numbers := []uint64{0, 1, 511, 512, 1 << 20, 2 << 20, 20 << 20, 1 << 40, 1<<40 + 512, math.MaxInt64,
		math.MaxUint64 - 511, math.MaxUint64}
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 3))
		row := settingsTable[random.IntN(len(settingsTable))]
		history := run(t, random, row.settings, 200, false)
		for range 1 + random.IntN(4) {
			number := numbers[random.IntN(len(numbers))]
			e := &history.Events[random.IntN(len(history.Events))]
			switch random.IntN(8) {
			case 0:
				e.Addr = number
			case 1:
				e.Bytes = min(number, math.MaxInt64)
			case 2:
				e.Action = trace.Action(random.IntN(10))
			case 3:
				e.Stream = number
			case 4:
				i := random.IntN(len(history.Events))
				history.Events = slices.Delete(history.Events, i, i+1)
			case 5:
				history.Events = append(history.Events, *e)
			default:
				if len(history.Segments) == 0 {
					continue
				}
				s := &history.Segments[random.IntN(len(history.Segments))]
				switch random.IntN(5) {
				case 0:
					s.Small = !s.Small
				case 1:
					s.Expandable = !s.Expandable
				case 2:
					s.Stream = number
				case 3:
					b := &s.Blocks[random.IntN(len(s.Blocks))]
					b.Held, b.Waiting = !b.Held, random.IntN(2) == 0
				case 4:
					history.Segments = append(history.Segments, *s)
				}
			}
		}
		v, err := rewind.Verify(context.Background(), &trace.History{Settings: historySettings(row.settings),
			GPUs: []trace.GPUHistory{history}})
		require.NoError(t, err)
		require.LessOrEqual(t, v.SameAddress+v.Undetermined, v.Allocations)
		require.LessOrEqual(t, v.SameSegments, v.Segments)
	}
}
