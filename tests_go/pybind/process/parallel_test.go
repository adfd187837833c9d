//go:build cgo

package process_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/pybind/process"
)

func TestParallelCallsForEachNumberOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100} {
		calls := make([]atomic.Int64, n)
		err := process.Parallel(context.Background(), n, func(_ context.Context, number int) error {
			calls[number].Add(1)
			return nil
		})
		require.NoError(t, err)
		for number := range calls {
			require.EqualValues(t, 1, calls[number].Load())
		}
	}
}

func TestParallelStopsAtAnError(t *testing.T) {
	wrong := errors.New("wrong")
	var calls atomic.Int64
	err := process.Parallel(context.Background(), 1_000_000, func(ctx context.Context, number int) error {
		calls.Add(1)
		if number == 10 {
			return wrong
		}
		return ctx.Err()
	})
	require.Equal(t, wrong, err)
	require.Less(t, calls.Load(), int64(1_000_000))

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, process.Parallel(ctx, 5, func(context.Context, int) error { return nil }), context.Canceled)
}
