// Package stitching runs a pool with little memory on a driver whose memory can be read and written: moving physical
// memory must never change the contents of a live block. It runs on simulated GPUs, whose mappings are true aliases,
// and on the fake driver.
package stitching

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

const (
	mib        = uint64(1) << 20
	limitMiB   = 65 // granules, and half of one
	mostLive   = 40
	largeBytes = 10 * mib
	period     = 4093 // of the bytes of a block: does not divide a granule
)

// open prevents a Manager from closing the driver.
type open struct{ gpu.Driver }

func (open) Close() error { return nil }

// block is a block with its own contents.
type block struct {
	bfc.Block
	requested uint64
	stream    gpu.Stream
}

// Run performs random operations on two streams, and checks all of every live block after each operation that moved
// memory. It returns how often that was.
func Run(t require.TestingT, driver gpu.Driver, seed uint64, steps int) (stitches uint64) {
	require.NoError(t, driver.ContextRetain(0))
	stream := must.OK(driver.StreamCreate(0, gpu.StreamNonBlocking, 0))(t)
	before, _ := must.OK2(driver.MemGetInfo(0))(t)
	m := must.OK(devmgr.New(open{driver}, config.Env{}))(t)
	limit := float64(limitMiB)
	require.NoError(t, m.Configure(func(s *config.State) error {
		return s.SetLogicalConfigs(config.Arg{Device: s.Physical()[1]},
			config.LogicalConfigs{Items: []config.LogicalConfig{{MemoryLimitMiB: &limit}}})
	}))
	must.OK(m.Initialize(config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, "a test", nil))(t)
	r := run{t: t, driver: driver, m: m, random: rand.New(rand.NewPCG(seed, 0)), scratch: make([]byte, largeBytes)}
	for step := range steps {
		if step == steps/2 {
			r.streams = []gpu.Stream{gpu.StreamNull, stream} // one stream before
		}
		r.step()
		require.NoError(t, m.Check())
		free, _ := must.OK2(driver.MemGetInfo(0))(t)
		// the last half granule takes a whole page
		require.LessOrEqual(t, before-free, (limitMiB+1)*mib, "the limit was passed")
	}
	for len(r.live) > 0 {
		r.free(0)
	}
	stats := must.OK(m.MemoryStats("GPU:0"))(t)
	require.NoError(t, m.Close(false))
	after, _ := must.OK2(driver.MemGetInfo(0))(t)
	require.Equal(t, before, after, "memory was left behind")
	require.NoError(t, driver.StreamDestroy(0, stream))
	require.NoError(t, driver.ContextRelease(0))
	return stats.Stitches
}

type run struct {
	t        require.TestingT
	driver   gpu.Driver
	m        *devmgr.Manager
	random   *rand.Rand
	streams  []gpu.Stream // nil: the null stream
	live     []block
	scratch  []byte
	stitches uint64
}

func (r *run) step() {
	if n := len(r.live); n > 0 && (n == mostLive || r.random.IntN(100) < 25) {
		r.free(r.random.IntN(n))
		return
	}
	b := block{requested: 1 + r.random.Uint64N(largeBytes), stream: gpu.StreamNull}
	if r.random.IntN(3) == 0 {
		b.requested = 1 + r.random.Uint64N(mib/2)
	}
	if len(r.streams) > 0 {
		b.stream = r.streams[r.random.IntN(len(r.streams))]
	}
	var err error
	if b.Block, err = r.m.AllocateKnowing(0, -1, b.stream, devmgr.Lasting, b.requested, 0); err != nil {
		require.Equal(r.t, status.ResourceExhausted, status.CodeOf(err), "%v", err)
		for range min(len(r.live), 3) {
			r.free(r.random.IntN(len(r.live)))
		}
	} else {
		require.NoError(r.t, r.driver.MemcpyHtoD(0, b.Addr, r.bytesOf(b)))
		r.live = append(r.live, b)
	}
	stats := must.OK(r.m.MemoryStats("GPU:0"))(r.t)
	if stats.Stitches > r.stitches {
		r.stitches = stats.Stitches
		for _, b := range r.live {
			r.check(b)
		}
	}
}

// bytesOf returns the contents of a block: its own sequence of bytes.
func (r *run) bytesOf(b block) []byte {
	x := b.ID
	data := r.scratch[:b.requested]
	for at := range data[:min(period, len(data))] {
		x = x*6364136223846793005 + 1442695040888963407
		data[at] = byte(x >> 56)
	}
	for n := period; n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
	return data
}

func (r *run) check(b block) {
	got := make([]byte, b.requested)
	require.NoError(r.t, r.driver.MemcpyDtoH(0, got, b.Addr))
	if !bytes.Equal(r.bytesOf(b), got) {
		require.Failf(r.t, "a block changed", "%d bytes at %#x", b.Bytes, b.Addr)
	}
}

func (r *run) free(at int) {
	b := r.live[at]
	r.check(b)
	require.NoError(r.t, r.m.FreeID(b.Addr, b.ID))
	r.live = slices.Delete(r.live, at, at+1)
}
