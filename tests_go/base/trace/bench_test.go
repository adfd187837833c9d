package trace_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/tests_go/must"
)

func BenchmarkAppend(b *testing.B) {
	r := must.OK(trace.NewRecorder(1<<16, nil))(b)
	ring := must.OK(r.Ring(0, &sync.Mutex{}))(b)
	b.ReportAllocs()
	for b.Loop() {
		ring.Append(trace.Allocate, 4096, 256, 0, 0, 0)
	}
	require.NoError(b, r.Close())
}
