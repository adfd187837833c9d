package trace_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
)

func BenchmarkAppend(b *testing.B) {
	r, err := trace.NewRecorder(1<<16, nil)
	require.NoError(b, err)
	ring, err := r.Ring(0, &sync.Mutex{})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		ring.Append(trace.Allocate, 4096, 256, 0, 0, 0)
	}
	require.NoError(b, r.Close())
}
