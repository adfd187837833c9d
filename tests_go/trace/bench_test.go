package trace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/trace"
)

func BenchmarkAppend(b *testing.B) {
	r, err := trace.NewRecorder(1 << 16)
	require.NoError(b, err)
	ring, err := r.Ring(0)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		ring.Lock()
		ring.Append(trace.Allocate, 4096, 256, 0)
		ring.Unlock()
	}
	_, err = r.Stop(nil)
	require.NoError(b, err)
}
