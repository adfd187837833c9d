package devmgr_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// model is a user's bookkeeping of a session: three logical GPUs whose limits add up to more than their one card has.
type model struct {
	m      *devmgr.Manager
	driver *driver
	pools  [3]counters
	live   []owned
	lost   bool // the driver has refused to free memory, or to complete a mapping: it holds more than the pools can use
}

// counters are the figures of MemoryStats.
type counters struct {
	limit, inUse, requested, peak, largest, allocs, blocks uint64
}

type owned struct {
	number    int
	block     bfc.Block
	requested uint64
	stamp     byte
}

// losing are the calls whose failure can leave memory with the driver that no pool can use.
var losing = []string{"MemFree", "MemSetAccess", "MemUnmap", "MemRelease", "MemAddressFree"}

const cardBytes = 64 * mib

var limits = []float64{20, 30.75, 40} // the middle one counts as 30

func newModel(t *rapid.T) *model {
	s := &model{driver: openDriver(t, "T4:64MiB", simulated.Options{NoVMM: rapid.Bool().Draw(t, "no VMM")})}
	env := config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": fmt.Sprint(rapid.Bool().Draw(t, "growth"))}
	if !rapid.Bool().Draw(t, "collect") {
		env["TF_ENABLE_GPU_GARBAGE_COLLECTION"] = "false"
	}
	var err error
	s.m, err = devmgr.New(s.driver, env)
	require.NoError(t, err)
	require.NoError(t, splitGPU(s.m, 0, limits...))
	must.OK(s.m.Initialize(env, "", nil))(t)
	for i, limit := range limits {
		s.pools[i].limit = uint64(limit) * mib
	}
	return s
}

func (s *model) close(t *rapid.T) {
	s.driver.SetFaults()
	require.NoError(t, s.m.Close(true))
	s.driver.requireNothingLeft(t)
	require.NoError(t, s.driver.machine.Close())
}

func (s *model) allocate(t *rapid.T) {
	number := rapid.IntRange(0, 2).Draw(t, "number")
	bytes := rapid.OneOf(rapid.Uint64Range(1, 2048), rapid.Uint64Range(1, 4*mib), rapid.Uint64Range(1, 45*mib)).Draw(
		t, "bytes")
	before := stats(t, s.m, s.name(number))
	calls := s.driver.Calls()
	block, err := s.m.Allocate(number, bytes, 0)
	if err != nil {
		var oom *bfc.OutOfMemory
		require.True(t, errors.As(err, &oom), "%v", err)
		require.ErrorContains(t, err, " out of memory")
		require.Less(t, before.LargestFreeBlockBytes, bytes, "a piece was free that fits")
		room := s.pools[number].limit - before.BytesReserved
		require.True(t, bytes > room || s.lost || s.driver.Calls() > calls,
			"the limit allows it, and the driver was not asked")
		return
	}
	p := &s.pools[number]
	require.Zero(t, block.Addr%256)
	require.Equal(t, (bytes+255)/256*256, block.Bytes)
	p.inUse += block.Bytes
	p.requested += bytes
	p.peak = max(p.peak, p.inUse)
	p.largest = max(p.largest, block.Bytes)
	p.allocs++
	p.blocks++
	o := owned{number, block, bytes, byte(p.allocs)}
	require.NoError(t, s.driver.machine.MemsetD8(0, block.Addr, o.stamp, 1))
	require.NoError(t, s.driver.machine.MemsetD8(0, block.Addr+bytes-1, o.stamp, 1))
	at, found := slices.BinarySearchFunc(s.live, o, byAddress)
	require.False(t, found, "two blocks at one address")
	require.True(t, at == 0 || s.live[at-1].block.Addr+s.live[at-1].block.Bytes <= block.Addr, "blocks overlap")
	require.True(t, at == len(s.live) || block.Addr+block.Bytes <= s.live[at].block.Addr, "blocks overlap")
	s.live = slices.Insert(s.live, at, o)
}

func byAddress(a, b owned) int {
	switch {
	case a.block.Addr < b.block.Addr:
		return -1
	case a.block.Addr > b.block.Addr:
		return 1
	}
	return 0
}

func (s *model) free(t *rapid.T) {
	if len(s.live) == 0 {
		t.Skip("nothing is live")
	}
	at := rapid.IntRange(0, len(s.live)-1).Draw(t, "block")
	o := s.live[at]
	got := make([]byte, 2)
	require.NoError(t, s.driver.machine.MemcpyDtoH(0, got[:1], o.block.Addr))
	require.NoError(t, s.driver.machine.MemcpyDtoH(0, got[1:], o.block.Addr+o.requested-1))
	require.Equal(t, []byte{o.stamp, o.stamp}, got, "another owner wrote here")
	if rapid.Bool().Draw(t, "by id") {
		require.NoError(t, s.m.FreeID(o.block.Addr, o.block.ID))
	} else {
		require.NoError(t, s.m.Free(o.block.Addr))
	}
	require.Error(t, s.m.FreeID(o.block.Addr, o.block.ID), "a second free")
	s.live = slices.Delete(s.live, at, at+1)
	p := &s.pools[o.number]
	p.inUse -= o.block.Bytes
	p.requested -= o.requested
	p.blocks--
}

func (s *model) mistake(t *rapid.T) {
	base := uint64(0)
	if len(s.live) > 0 {
		base = rapid.SampledFrom(s.live).Draw(t, "near").block.Addr
	}
	addr := base + rapid.Uint64Range(1, 255).Draw(t, "off")
	require.Error(t, s.m.Free(addr))
}

func (s *model) clearStats(t *rapid.T) {
	number := rapid.IntRange(0, 2).Draw(t, "number")
	require.NoError(t, s.m.ResetMemoryStats(s.name(number)))
	p := &s.pools[number]
	p.peak, p.allocs, p.largest = p.inUse, 0, 0
}

// fault makes the driver fail from here on: never, now and then, or whenever memory is freed.
func (s *model) fault(t *rapid.T) {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0, 1:
		s.driver.SetFaults()
	case 2:
		s.failing(faults.Seeded(0.5, rapid.Uint64().Draw(t, "seed"), gpu.ErrorOutOfMemory))
	case 3:
		s.failing(func(c faults.Call) error {
			if c.Op == "MemFree" {
				return gpu.ErrorIllegalAddress
			}
			return nil
		})
	}
}

// failing makes the driver fail, and records whether that loses memory.
func (s *model) failing(fault faults.Fault) {
	s.driver.SetFaults(func(c faults.Call) error {
		err := fault(c)
		s.lost = s.lost || (err != nil && slices.Contains(losing, c.Op))
		return err
	})
}

func (s *model) refusedClose(t *rapid.T) {
	if len(s.live) == 0 {
		t.Skip("nothing is live")
	}
	require.ErrorContains(t, s.m.Close(false), "memory is still in use")
}

func (s *model) name(number int) string { return []string{"GPU:0", "GPU:1", "GPU:2"}[number] }

// check compares the Manager with the model.
func (s *model) check(t *rapid.T) {
	require.NoError(t, s.m.Check())
	var reserved uint64
	for number, p := range s.pools {
		got := stats(t, s.m, s.name(number))
		require.Equal(t, p, counters{got.BytesLimit, got.BytesInUse, got.RequestedBytesInUse, got.PeakBytesInUse,
			got.LargestAllocSize, got.NumAllocs, got.LiveBlocks}, s.name(number))
		require.LessOrEqual(t, got.PeakBytesReserved, p.limit, "more was taken than the limit allows")
		reserved += got.BytesReserved
	}
	taken := s.driver.taken(t, 0)
	require.LessOrEqual(t, reserved, taken)
	require.LessOrEqual(t, taken, uint64(cardBytes))
	if !s.lost {
		require.Equal(t, reserved, taken, "memory of the card that no pool knows")
	}
}

func TestRandomSessionsKeepTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newModel(t)
		defer s.close(t)
		t.Repeat(map[string]func(*rapid.T){
			"allocate":      s.allocate,
			"allocate more": s.allocate,
			"free":          s.free,
			"mistake":       s.mistake,
			"clear stats":   s.clearStats,
			"fault":         s.fault,
			"refused close": s.refusedClose,
			"":              s.check,
		})
	})
}
