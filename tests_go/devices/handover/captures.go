package handover

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/drivertest"
	"gpuconf/tests_go/must"
)

// Capturing is a driver whose streams the test captures, as other code of a process would.
type Capturing interface {
	gpu.Driver
	drivertest.Capturer
}

const mib = 1 << 20

// stage is a pool of 8 MiB on a driver, with helpers for the scenarios.
type stage struct {
	*testing.T
	Capturing
	m *devmgr.Manager
}

// keepOpen prevents a manager from closing the test's driver.
type keepOpen struct{ Capturing }

func (keepOpen) Close() error { return nil }

// Captures runs scenarios of programs with CUDA graphs on a pool, and checks who may get which memory. open returns a
// driver on a machine that nothing else uses.
func Captures(t *testing.T, open func(*testing.T) Capturing) {
	scenes := map[string]func(*stage){
		"a graph keeps its memory until it is gone": (*stage).aGraphKeepsItsMemory,
		"nothing of ours is captured":               (*stage).nothingOfOursIsCaptured,
		"streams that join a capture":               (*stage).streamsJoin,
		"two captures at once":                      (*stage).twoAtOnce,
		"a capture that fails":                      (*stage).aCaptureFails,
		"blocks of before":                          (*stage).blocksOfBefore,
		"blocks outlive their graph":                (*stage).blocksOutliveTheirGraph,
		"a reset while a graph is there":            (*stage).aResetMeetsAGraph,
	}
	for name, play := range scenes {
		for _, growth := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", growing"}[growth], func(t *testing.T) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				driver := open(t)
				require.NoError(t, driver.ContextRetain(0))
				m := must.OK(devmgr.New(keepOpen{driver}, config.Env{}))(t)
				limit := 8.0
				require.NoError(t, m.Configure(func(s *config.State) error {
					gpu0 := config.Arg{Device: s.Physical()[1]}
					if growth {
						require.NoError(t, s.SetGrowth(gpu0, 1, ""))
					}
					return s.SetLogicalConfigs(gpu0,
						config.LogicalConfigs{Items: []config.LogicalConfig{{MemoryLimitMiB: &limit}}})
				}))
				must.OK(m.Initialize(
					config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": map[bool]string{true: "true", false: "false"}[growth]},
					"a scene", nil))(t)
				s := &stage{t, driver, m}
				play(s)
				if !m.Closed() {
					require.NoError(t, m.Check())
				}
				require.NoError(t, m.Close(true))
				require.NoError(t, driver.ContextRelease(0))
			})
		}
	}
}

func (s *stage) stream(flags gpu.StreamFlags) gpu.Stream {
	return must.OK(s.StreamCreate(0, flags, 0))(s)
}

func (s *stage) allocate(stream gpu.Stream, bytes uint64) uint64 {
	return must.OK(s.m.AllocateKnowing(0, -1, stream, devmgr.Lasting, bytes, 0))(s).Addr
}

func (s *stage) refuses(stream gpu.Stream, bytes uint64) {
	_, err := s.m.AllocateKnowing(0, -1, stream, devmgr.Lasting, bytes, 0)
	require.Equal(s, status.ResourceExhausted, status.CodeOf(err), "%v", err)
	require.ErrorContains(s, err, "kept for captured graphs")
}

func (s *stage) fill(stream gpu.Stream, addr, size uint64, value byte) {
	require.NoError(s, s.MemsetD8Async(0, addr, value, size, stream))
}

func (s *stage) holds(addr, size uint64, value byte) {
	got := make([]byte, size)
	require.NoError(s, s.MemcpyDtoH(0, got, addr))
	require.Equal(s, len(got), bytes.Count(got, []byte{value}), "%v... instead of %d", got[:4], value)
}

func (s *stage) begin(stream gpu.Stream) { require.NoError(s, s.BeginCapture(0, stream)) }

// end ends a capture, checks the number of pieces of its graph, and returns the executable. No other stream may be
// captured.
func (s *stage) end(stream gpu.Stream, pieces int) (exec uint64) {
	return s.instantiate(s.graph(stream, pieces))
}

func (s *stage) graph(stream gpu.Stream, pieces int) (graph uint64) {
	graph = must.OK(s.EndCapture(0, stream))(s)
	require.Equal(s, pieces, s.GraphPieces(0, graph), "what was captured")
	return graph
}

func (s *stage) instantiate(graph uint64) (exec uint64) {
	exec = must.OK(s.Instantiate(0, graph))(s)
	require.NoError(s, s.DestroyGraph(0, graph))
	return exec
}

func (s *stage) launch(exec uint64, stream gpu.Stream) { require.NoError(s, s.Launch(0, exec, stream)) }
func (s *stage) wait(stream gpu.Stream)                { require.NoError(s, s.StreamSynchronize(0, stream)) }
func (s *stage) captured() uint64                      { return must.OK(s.m.MemoryStats("GPU:0"))(s).CapturedBytes }

func (s *stage) aGraphKeepsItsMemory() {
	captured, other := s.stream(gpu.StreamNonBlocking), s.stream(gpu.StreamNonBlocking)
	s.begin(captured)
	first := s.allocate(captured, 2*mib)
	s.fill(captured, first, 2*mib, 1)
	require.NoError(s, s.m.Free(first))
	second := s.allocate(captured, 2*mib)
	require.Equal(s, first, second, "in the order of the capture")
	s.fill(captured, second, 2*mib, 2)
	require.NoError(s, s.m.FreeOn(second, captured))
	exec := s.end(captured, 2)
	require.Equal(s, uint64(2*mib), s.captured())

	for _, stream := range []gpu.Stream{other, captured, gpu.StreamNull} {
		s.refuses(stream, 8*mib)
		mine := s.allocate(stream, 6*mib)
		s.fill(stream, mine, 6*mib, 9)
		s.launch(exec, other)
		s.wait(other)
		s.wait(stream)
		s.holds(mine, 6*mib, 9)
		s.holds(first, 2*mib, 2)
		require.NoError(s, s.m.FreeOn(mine, stream))
	}
	must.OK(s.m.Trim())(s)
	s.launch(exec, other)
	require.NoError(s, s.DestroyExec(0, exec))
	s.wait(other)
	all := s.allocate(other, 8*mib)
	require.Zero(s, s.captured())
	require.NoError(s, s.m.Free(all))
}

// nothingOfOursIsCaptured: while one stream is captured, others hand memory over, with gpuconf's marks and waits.
func (s *stage) nothingOfOursIsCaptured() {
	for _, flags := range []gpu.StreamFlags{gpu.StreamNonBlocking, gpu.StreamDefault} {
		captured, one, other := s.stream(flags), s.stream(gpu.StreamNonBlocking), s.stream(gpu.StreamNonBlocking)
		for _, stream := range []gpu.Stream{gpu.StreamNull, captured, one, other} {
			s.fill(stream, s.allocate(stream, 2*mib), 2*mib, 1)
		}
		s.freeAll()
		s.begin(captured)
		mine := s.allocate(captured, mib)
		s.fill(captured, mine, mib, 3)
		for range 3 {
			for _, stream := range []gpu.Stream{one, other} {
				block, err := s.m.AllocateKnowing(0, -1, stream, devmgr.Lasting, 3*mib, 0)
				if err == nil {
					s.fill(stream, block.Addr, 3*mib, 4)
					require.NoError(s, s.m.FreeOn(block.Addr, stream))
				}
			}
			_, _ = s.m.Trim()
		}
		require.NoError(s, s.m.FreeOn(mine, captured))
		exec := s.end(captured, 1)
		s.launch(exec, one)
		s.wait(one)
		s.holds(mine, mib, 3)
		require.NoError(s, s.DestroyExec(0, exec))
		require.Zero(s, s.captured())
		s.freeAll()
		require.NoError(s, s.ContextSynchronize(0))
		must.OK(s.m.Trim())(s)
	}
}

// freeAll frees all live blocks.
func (s *stage) freeAll() {
	picture := must.OK(s.m.MemoryMap("GPU:0"))(s)
	for _, r := range picture.Regions {
		for _, c := range r.Chunks {
			if !c.Free {
				require.NoError(s, s.m.Free(c.Addr))
			}
		}
	}
}

func (s *stage) streamsJoin() {
	first, second, other := s.stream(gpu.StreamNonBlocking), s.stream(gpu.StreamNonBlocking),
		s.stream(gpu.StreamNonBlocking)
	event := must.OK(s.EventCreate(0))(s)
	follow := func(stream, after gpu.Stream) {
		require.NoError(s, s.EventRecord(0, event, after))
		require.NoError(s, s.StreamWaitEvent(0, stream, event))
	}
	s.begin(first)
	a := s.allocate(first, mib)
	s.fill(first, a, mib, 1)
	follow(second, first)
	b := s.allocate(second, mib)
	require.NotEqual(s, a, b)
	require.NoError(s, s.MemcpyDtoDAsync(0, b, a, mib, second))
	require.NoError(s, s.m.RecordStream(a, second))
	require.NoError(s, s.m.FreeOn(a, first))
	c := s.allocate(first, mib)
	require.NotEqual(s, a, c, "the second stream's captured work uses it")
	s.fill(first, c, mib, 2)
	require.NoError(s, s.m.Free(b))
	require.NotContains(s, []uint64{a, b}, s.allocate(first, mib), "what one stream frees is not the other's")
	follow(first, second)
	exec := s.end(first, 3)
	s.freeAll()
	s.refuses(other, 6*mib)
	s.launch(exec, other)
	s.wait(other)
	s.holds(b, mib, 1)
	require.NoError(s, s.DestroyExec(0, exec))
	require.NoError(s, s.EventDestroy(0, event))
	s.allocate(other, 8*mib)
}

func (s *stage) twoAtOnce() {
	one, other, third := s.stream(gpu.StreamNonBlocking), s.stream(gpu.StreamNonBlocking),
		s.stream(gpu.StreamNonBlocking)
	s.begin(one)
	s.begin(other)
	a, b := s.allocate(one, mib), s.allocate(other, mib)
	require.NotEqual(s, a, b)
	require.NoError(s, s.m.Free(a))
	require.NoError(s, s.m.Free(b))
	require.Equal(s, a, s.allocate(one, mib))
	require.Equal(s, b, s.allocate(other, mib))
	s.fill(one, a, mib, 1)
	s.fill(other, b, mib, 2)
	graphs := [2]uint64{s.graph(one, 1), s.graph(other, 1)}
	first, second := s.instantiate(graphs[0]), s.instantiate(graphs[1])
	s.freeAll()
	require.NoError(s, s.DestroyExec(0, first))
	require.Equal(s, uint64(mib), s.captured(), "the other is there")
	again := s.allocate(third, mib)
	s.fill(third, again, mib, 5)
	s.launch(second, third)
	s.wait(third)
	s.holds(again, mib, 5)
	s.holds(b, mib, 2)
	require.NoError(s, s.DestroyExec(0, second))
	require.Zero(s, s.captured())
}

func (s *stage) aCaptureFails() {
	captured := s.stream(gpu.StreamNonBlocking)
	s.begin(captured)
	kept, freed := s.allocate(captured, mib), s.allocate(captured, mib)
	require.NoError(s, s.m.Free(freed))
	require.Error(s, must.Err(s.StreamQuery(0, captured)), "this spoils it")
	require.ErrorIs(s, must.Err(s.EndCapture(0, captured)), gpu.ErrorStreamCaptureInvalidated)
	require.Zero(s, s.captured())
	require.NoError(s, s.m.FreeOn(kept, captured))
	s.allocate(captured, 8*mib)
}

// blocksOfBefore: a block that captured work uses and that existed before is not reused by others after it is freed on
// the captured stream.
func (s *stage) blocksOfBefore() {
	captured, other := s.stream(gpu.StreamNonBlocking), s.stream(gpu.StreamNonBlocking)
	own, others := s.allocate(captured, 2*mib), s.allocate(other, 2*mib)
	s.begin(captured)
	s.fill(captured, own, 2*mib, 1)
	s.fill(captured, others, 2*mib, 2)
	require.NoError(s, s.m.FreeOn(own, captured))
	require.NoError(s, s.m.RecordStream(others, captured))
	require.NoError(s, s.m.Free(others))
	exec := s.end(captured, 2)
	require.Equal(s, uint64(4*mib), s.captured())
	mine := s.allocate(other, 4*mib)
	s.fill(other, mine, 4*mib, 9)
	s.launch(exec, other)
	s.wait(other)
	s.holds(mine, 4*mib, 9)
	s.holds(own, 2*mib, 1)
	require.NoError(s, s.DestroyExec(0, exec))
	require.NoError(s, s.m.Free(mine))
	s.allocate(other, 8*mib)
}

func (s *stage) blocksOutliveTheirGraph() {
	captured, other := s.stream(gpu.StreamNonBlocking), s.stream(gpu.StreamNonBlocking)
	s.begin(captured)
	out := s.allocate(captured, 8*mib)
	s.fill(captured, out, 8*mib, 1)
	exec := s.end(captured, 1)
	s.launch(exec, captured)
	require.NoError(s, s.DestroyExec(0, exec))
	s.wait(captured)
	s.holds(out, 8*mib, 1)
	require.Zero(s, s.captured())
	s.fill(captured, out, 8*mib, 2)
	require.NoError(s, s.m.Free(out))
	heir := s.allocate(other, 8*mib)
	require.Equal(s, out, heir)
	s.fill(other, heir, 8*mib, 3)
	s.wait(other)
	s.holds(heir, 8*mib, 3)
	must.Fail(s, status.InvalidArgument, s.m.Free(out+256))
}

func (s *stage) aResetMeetsAGraph() {
	captured := s.stream(gpu.StreamNonBlocking)
	s.begin(captured)
	block := s.allocate(captured, mib)
	s.fill(captured, block, mib, 1)
	require.NoError(s, s.m.Free(block))
	exec := s.end(captured, 1)
	must.Fail(s, status.FailedPrecondition, s.m.Close(false), "1 captured graph with memory on GPU:0 (1.00MiB freed)")
	s.launch(exec, captured)
	s.wait(captured)
	s.holds(block, mib, 1)
	require.NoError(s, s.DestroyExec(0, exec))
	require.NoError(s, s.m.Close(false))
}
