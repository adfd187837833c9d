package rewind_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/rewind"
)

func verify(t testing.TB, gpus ...trace.GPUHistory) *rewind.Verdict {
	verdict, err := rewind.Verify(context.Background(), &trace.History{GPUs: gpus})
	require.NoError(t, err)
	return verdict
}

// The model gives every allocation of nine recorded runs the address that PyTorch gave it, and takes each segment when
// PyTorch did.
func TestRecordedRuns(t *testing.T) {
	for _, path := range records(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			v := verify(t, recorded(t, path))
			require.Empty(t, v.Difference)
			require.Equal(t, v.Allocations, v.SameAddress)
			require.Equal(t, v.Segments, v.SameSegments)
			require.Zero(t, v.Undetermined)
			require.Greater(t, v.Allocations, 1000)
		})
	}
}

// Whatever address or size of an event is altered, the replay differs.
func TestAnAlteredRecordDiffers(t *testing.T) {
	original := recorded(t, "testdata/cnn.json.gz")
	for i := range original.Events {
		if i%37 != 0 && original.Events[i].Action != trace.SegmentAlloc {
			continue
		}
		for name, alter := range map[string]func(e *trace.Event){
			"address": func(e *trace.Event) { e.Addr += 512 },
			"size":    func(e *trace.Event) { e.Bytes += 4 << 20 },
		} {
			altered := original
			altered.Events = slices.Clone(original.Events)
			alter(&altered.Events[i])
			v := verify(t, altered)
			require.NotEmpty(t, v.Difference, "event %d: %s", i+1, name)
			require.Less(t, v.SameAddress+v.SameSegments, v.Allocations+v.Segments)
		}
	}
}

// Nor does a record pass of which the end has been altered.
func TestAnAlteredEndDiffers(t *testing.T) {
	for i := range recorded(t, "testdata/cnn.json.gz").Segments {
		altered := recorded(t, "testdata/cnn.json.gz")
		s := &altered.Segments[i]
		if len(s.Blocks) < 2 {
			continue
		}
		s.Blocks[0].Bytes += 512
		s.Blocks[1].Addr += 512
		s.Blocks[1].Bytes -= 512
		require.NotEmpty(t, verify(t, altered).Difference, "segment %d", i)
	}
}
