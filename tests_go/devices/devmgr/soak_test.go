package devmgr_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// meter counts what a pool has allocated from a GPU, and checks the limit at every call.
type meter struct {
	*driver
	t     testing.TB
	limit uint64
	held  uint64
	sizes map[uint64]uint64 // by address, or by handle
	lost  bool              // the driver refused to free something: the device holds more than the pool can use
}

func (m *meter) take(name, bytes uint64) {
	m.sizes[name] = bytes
	if m.held += bytes; m.held > m.limit {
		require.Failf(m.t, "the limit was passed", "%d bytes are held, the limit is %d", m.held, m.limit)
	}
}

func (m *meter) give(name uint64, err error) error {
	if err == nil {
		m.held -= m.sizes[name]
		delete(m.sizes, name)
	}
	return err
}

func (m *meter) MemAlloc(ordinal int, bytes uint64) (uint64, error) {
	addr, err := m.driver.MemAlloc(ordinal, bytes)
	if err == nil {
		m.take(addr, bytes)
	}
	return addr, err
}

func (m *meter) MemFree(ordinal int, addr uint64) error {
	return m.give(addr, m.driver.MemFree(ordinal, addr))
}

func (m *meter) MemCreate(ordinal int, bytes uint64) (gpu.Handle, error) {
	handle, err := m.driver.MemCreate(ordinal, bytes)
	if err == nil {
		m.take(uint64(handle), bytes)
	}
	return handle, err
}

func (m *meter) MemRelease(handle gpu.Handle) error {
	return m.give(uint64(handle), m.driver.MemRelease(handle))
}

// soaker is one session of random operations on its own pool, with a simple oracle beside it.
type soaker struct {
	t        *testing.T
	random   *rand.Rand
	meter    *meter
	m        *devmgr.Manager
	counters counters
	live     []soaked
	freed    []bfc.Block // freed recently
	streams  []gpu.Stream
	ended    gpu.Stream // destroyed; StreamNull if no stream was
}

type soaked struct {
	bfc.Block
	requested uint64
	stream    gpu.Stream
	gone      bool // the stream was destroyed
	stamp     byte
}

const (
	mostSoaked    = 50
	opsPerSession = 2000
)

func newSoaker(t *testing.T, seed uint64) *soaker {
	s := &soaker{t: t, random: rand.New(rand.NewPCG(seed, 0)), streams: []gpu.Stream{gpu.StreamNull}}
	limit := float64(16+s.random.IntN(30)) + 0.75 // the fraction of a MiB is cut off
	// granules, granules without collecting, regions that grow, one region
	kind := seed % 4
	d := openDriver(t, "T4:64MiB", simulated.Options{NoVMM: kind == 2, NoStreamMemOps: s.random.IntN(4) == 0})
	s.meter = &meter{driver: d, t: t, limit: uint64(limit) * mib, sizes: map[uint64]uint64{}}
	s.counters.limit = s.meter.limit
	env := config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": strconv.FormatBool(kind < 3),
		"TF_ENABLE_GPU_GARBAGE_COLLECTION": strconv.FormatBool(kind != 1)}

	s.m = must.OK(devmgr.New(s.meter, env))(t)
	require.NoError(t, splitGPU(s.m, 0, limit))
	must.OK(s.m.Initialize(env, "", nil))(t)
	return s
}

func (s *soaker) step() {
	switch n := s.random.IntN(1000); {
	case n < 5:
		s.fault()
	case n < 10:
		_, _ = s.m.Trim()
	case n < 15:
		require.NoError(s.t, s.m.ResetMemoryStats("GPU:0"))
		s.counters.peak, s.counters.allocs, s.counters.largest = s.counters.inUse, 0, 0
	case n < 25:
		s.newStream()
	case n < 30:
		s.endStream()
	case n < 80:
		s.mistake()
	case n < 83:
		for len(s.live) > 0 {
			s.free(s.random.IntN(len(s.live)))
		}
	case len(s.live) > 0 && (n < 520 || len(s.live) == mostSoaked):
		s.free(s.random.IntN(len(s.live)))
	default:
		s.allocate()
	}
	s.check()
}

// fault makes the driver fail from here on, or stops that.
func (s *soaker) fault() {
	if s.random.IntN(2) == 0 {
		s.meter.SetFaults()
		return
	}
	fault := faults.Seeded([]float64{0.01, 0.1, 0.5}[s.random.IntN(3)], s.random.Uint64(), gpu.ErrorOutOfMemory)
	s.meter.SetFaults(func(c faults.Call) error {
		if c.Op == "StreamGetID" { // if that fails, a stream is identified by its handle, destroyed or not
			return nil
		}
		err := fault(c)
		s.meter.lost = s.meter.lost || err != nil
		return err
	})
}

func (s *soaker) size() uint64 {
	switch n := s.random.IntN(20); {
	case n == 0:
		return 1 + s.random.Uint64N(s.meter.limit*9/8)
	case n < 8:
		return 1 + s.random.Uint64N(6*mib)
	default:
		return 1 + s.random.Uint64N(64*kib)
	}
}

func (s *soaker) allocate() {
	b := soaked{requested: s.size(), stream: s.streams[s.random.IntN(len(s.streams))], stamp: byte(s.random.Uint32())}
	var err error
	if b.Block, err = s.m.AllocateKnowing(0, -1, b.stream, devmgr.Lasting, b.requested, 0); err != nil {
		if code := status.CodeOf(err); code != status.ResourceExhausted && !s.meter.lost {
			require.NoError(s.t, err)
		}
		return
	}
	for _, other := range s.live {
		if other.Addr < b.Addr+b.Bytes && b.Addr < other.Addr+other.Bytes {
			require.Failf(s.t, "blocks overlap", "%+v and %+v", other, b)
		}
	}
	s.write(b, b.Addr)
	s.write(b, b.Addr+b.requested-1)
	s.live = append(s.live, b)
	p := &s.counters
	p.inUse += b.Bytes
	p.requested += b.requested
	p.peak = max(p.peak, p.inUse)
	p.largest = max(p.largest, b.Bytes)
	p.allocs++
	p.blocks++
}

// write queues it in the block's stream.
func (s *soaker) write(b soaked, addr uint64) {
	require.NoError(s.t, s.meter.machine.MemsetD8Async(0, addr, b.stamp, 1, b.stream))
}

func (s *soaker) free(at int) {
	b := s.live[at]
	if s.random.IntN(4) == 0 {
		s.read(b)
	} else if !b.gone {
		s.write(b, b.Addr) // may still run when another owner wants the memory
	}
	other := s.streams[s.random.IntN(len(s.streams))]
	var err error
	switch s.random.IntN(4) {
	case 0:
		if err = s.m.RecordStream(b.Addr, other); err == nil {
			err = s.m.Free(b.Addr)
		}
	case 1:
		err = s.m.FreeOn(b.Addr, other)
	case 2:
		err = s.m.FreeID(b.Addr, b.ID)
	default:
		err = s.m.Free(b.Addr)
	}
	if err != nil { // the stream's id could not be queried: the block is still live
		require.True(s.t, s.meter.lost, "%v", err)
		return
	}
	s.live[at] = s.live[len(s.live)-1]
	s.live = s.live[:len(s.live)-1]
	if s.freed = append(s.freed, b.Block); len(s.freed) > 16 {
		s.freed = s.freed[1:]
	}
	s.counters.inUse -= b.Bytes
	s.counters.requested -= b.requested
	s.counters.blocks--
}

// read checks that a block contains what was written to it.
func (s *soaker) read(b soaked) {
	if !b.gone {
		require.NoError(s.t, s.meter.machine.StreamSynchronize(0, b.stream))
	}
	got := make([]byte, 2)
	require.NoError(s.t, s.meter.machine.MemcpyDtoH(0, got[:1], b.Addr))
	require.NoError(s.t, s.meter.machine.MemcpyDtoH(0, got[1:], b.Addr+b.requested-1))
	if got[0] != b.stamp || got[1] != b.stamp {
		require.Failf(s.t, "another owner wrote here", "%d %d instead of %d", got[0], got[1], b.stamp)
	}
}

func (s *soaker) newStream() {
	if len(s.streams) < 4 {
		stream := must.OK(s.meter.machine.StreamCreate(0, gpu.StreamNonBlocking, 0))(s.t)
		s.streams = append(s.streams, stream)
		if stream == s.ended { // the handle is reused
			s.ended = gpu.StreamNull
		}
	}
}

// endStream destroys a stream, with or without blocks.
func (s *soaker) endStream() {
	if len(s.streams) == 1 {
		return
	}
	at := 1 + s.random.IntN(len(s.streams)-1)
	s.ended = s.streams[at]
	require.NoError(s.t, s.meter.machine.StreamSynchronize(0, s.ended))
	require.NoError(s.t, s.meter.machine.StreamDestroy(0, s.ended))
	s.streams = append(s.streams[:at], s.streams[at+1:]...)
	for i := range s.live {
		s.live[i].gone = s.live[i].gone || s.live[i].stream == s.ended
	}
}

// mistake makes invalid calls, which must not change the accounting.
func (s *soaker) mistake() {
	before := stats(s.t, s.m, "GPU:0")
	var err error
	kind := s.random.IntN(5)
	switch {
	case kind == 0 && len(s.freed) > 0: // again; another block may have the address, but not the number
		b := s.freed[s.random.IntN(len(s.freed))]
		err = s.m.FreeID(b.Addr, b.ID)
	case kind == 1 && len(s.live) > 0:
		err = s.m.Free(s.live[s.random.IntN(len(s.live))].Addr + 1 + s.random.Uint64N(255))
	case kind == 2 && s.ended != gpu.StreamNull && len(s.live) > 0:
		err = s.m.FreeOn(s.live[s.random.IntN(len(s.live))].Addr, s.ended)
	case kind == 3:
		err = s.m.Free(1 + s.random.Uint64N(1<<40))
	default:
		require.ErrorContains(s.t, s.m.Free(1), "")
		return
	}
	if kind != 2 || !errors.Is(err, gpu.ErrorOutOfMemory) {
		// an injected failure, before the driver could say that there is no such stream
		must.Fail(s.t, status.InvalidArgument, err)
	}
	require.Error(s.t, err)
	require.Equal(s.t, before, stats(s.t, s.m, "GPU:0"))
}

// check compares the pool with the oracle.
func (s *soaker) check() {
	if err := s.m.Check(); err != nil {
		require.NoError(s.t, err)
	}
	got := stats(s.t, s.m, "GPU:0")
	is := counters{got.BytesLimit, got.BytesInUse, got.RequestedBytesInUse, got.PeakBytesInUse, got.LargestAllocSize,
		got.NumAllocs, got.LiveBlocks}
	if is != s.counters {
		require.Equal(s.t, s.counters, is)
	}
	if got.PeakBytesReserved > s.meter.limit || got.BytesReserved > s.meter.held ||
		got.BytesReserved != s.meter.held && !s.meter.lost {
		require.Failf(s.t, "the accounting is wrong", "reserved %d, at most %d, held %d, limit %d", got.BytesReserved,
			got.PeakBytesReserved, s.meter.held, s.meter.limit)
	}
	if free := got.BytesReserved - got.BytesInUse; got.LargestFreeBlockBytes > free {
		require.Failf(s.t, "the accounting is wrong", "the largest free piece has %d bytes, %d are free",
			got.LargestFreeBlockBytes, free)
	}
}

// end closes everything, including live blocks, and returns how often memory was moved.
func (s *soaker) end() (stitches uint64) {
	stitches = stats(s.t, s.m, "GPU:0").Stitches
	s.meter.SetFaults()
	for _, b := range s.live {
		s.read(b)
	}
	if len(s.live) > 0 {
		must.Fail(s.t, status.FailedPrecondition, s.m.Close(false))
	}
	for _, stream := range s.streams { // what is queued in them may use memory that is about to be released
		require.NoError(s.t, s.meter.machine.StreamSynchronize(0, stream))
		if stream != gpu.StreamNull {
			require.NoError(s.t, s.meter.machine.StreamDestroy(0, stream))
		}
	}
	require.NoError(s.t, s.m.Close(true))
	for _, b := range s.live {
		require.Error(s.t, s.m.Free(b.Addr), "after the end")
	}
	s.meter.requireNothingLeft(s.t)
	require.NoError(s.t, s.meter.machine.Close())
	return stitches
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	return must.OK(strconv.ParseUint(text, 10, 64))(t, name)
}

// Random operations while the driver fails at random: SOAK operations, in sessions of a few thousand, with SEED and the
// numbers after it. `make soak` runs many.
func TestSoak(t *testing.T) {
	ops := uint64(100_000)
	if underRace {
		ops = 3 * opsPerSession
	}
	ops = number(t, "SOAK", ops)
	seed := number(t, "SEED", 1)
	begin, reported := time.Now(), time.Now()
	var stitches uint64
	for done := uint64(0); done < ops; done += opsPerSession {
		soak(t, seed, &stitches)
		seed++
		if os.Getenv("SOAK") != "" && time.Since(reported) > 2*time.Second {
			reported = time.Now()
			fmt.Fprintf(os.Stderr, "\r%d of %d operations, %d stitches, seed %d, %v  ", done+opsPerSession, ops,
				stitches, seed, time.Since(begin).Round(time.Second))
		}
	}
	if os.Getenv("SOAK") != "" {
		fmt.Fprintf(os.Stderr, "\r%d operations, %d stitches, no complaint, %v\n", ops, stitches,
			time.Since(begin).Round(time.Second))
	}
	require.NotZero(t, stitches)
}

func soak(t *testing.T, seed uint64, stitches *uint64) {
	op := 0
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, operation %d; once more: make soak SEED=%d SOAK=1", seed, op, seed)
		}
	}()
	s := newSoaker(t, seed)
	for ; op < opsPerSession; op++ {
		s.step()
	}
	*stitches += s.end()
}
