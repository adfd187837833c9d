package handover

import (
	"bytes"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

const (
	unitBytes = 256
	poolBytes = 1 << 20
	mostReads = 16
)

// world is a pool on which a program runs repeatedly.
type world struct {
	t       require.TestingT
	program Program
	order   *order
	m       *devmgr.Manager
	event   gpu.Event
	host    gpu.HostMemory // receives what is read back, a part for each read

	ballast bfc.Block // memory withheld from the program
	at      []int     // by thread: its next operation
	live    map[string]*block
	reads   []read
	values  byte
}

type block struct {
	bfc.Block
	bytes uint64
	value byte
}

// read is a queued read of a block, and the expected value.
type read struct {
	bytes uint64
	value byte
}

// newWorld creates a pool on a driver; all of its free memory belongs to the first stream.
func newWorld(t require.TestingT, driver gpu.Driver, program Program, keep bool) *world {
	require.NoError(t, driver.ContextRetain(0))
	w := &world{t: t, program: program, order: newOrder(t, driver, program.Streams, keep)}

	w.host = must.OK(driver.MemHostAlloc(0, mostReads*program.Units*unitBytes))(t)
	w.event = must.OK(driver.EventCreate(0))(t)
	w.m = must.OK(devmgr.New(w.order, config.Env{}))(t)
	limit := float64(poolBytes >> 20)
	require.NoError(t, w.m.Configure(func(s *config.State) error {
		return s.SetLogicalConfigs(config.Arg{Device: s.Physical()[1]},
			config.LogicalConfigs{Items: []config.LogicalConfig{{MemoryLimitMiB: &limit}}})
	}))
	must.OK(w.m.Initialize(config.Env{}, "a program", nil))(t)
	w.ballast = must.OK(w.m.AllocateKnowing(0, -1, w.order.streams[0], devmgr.Lasting,
		poolBytes-program.Units*unitBytes, 0))(t)
	w.at = make([]int, len(program.Threads))
	w.live = map[string]*block{}
	return w
}

// close closes the pool. All work is done but the marks that Close queues and waits for, which drain lets the device
// execute.
func (w *world) close(drain func()) {
	require.NoError(w.t, w.m.Check())
	require.NoError(w.t, w.m.Free(w.ballast.Addr))
	closed := make(chan error, 1)
	go func() { closed <- w.m.Close(false) }()
	for waiting := true; waiting; {
		select {
		case err := <-closed:
			require.NoError(w.t, err)
			waiting = false
		case <-time.After(20 * time.Microsecond):
			drain()
		}
	}
	require.NoError(w.t, w.order.Driver.EventDestroy(0, w.event))
	require.NoError(w.t, w.order.Driver.MemFreeHost(0, w.host.Addr))
	w.order.end()
	require.NoError(w.t, w.order.Driver.ContextRelease(0))
}

// begin restores the pool's state at the start of a run: its free memory is contiguous and belongs to the first stream;
// each stream has used it and was marked since. All work is done.
func (w *world) begin(drain func()) {
	for i := len(w.order.streams) - 1; i >= -1; i-- {
		all, err := w.m.AllocateKnowing(0, -1, w.order.streams[max(i, 0)], devmgr.Lasting, w.program.Units*unitBytes, 0)
		w.must(err)
		w.must(w.m.Free(all.Addr))
		drain()
	}
	w.reset()
}

// reset clears the state of the previous run.
func (w *world) reset() {
	w.order.forget()
	clear(w.at)
	clear(w.live)
	w.reads, w.values = w.reads[:0], 0
}

// finish checks a run whose work is all done: every read returned its owner's bytes.
func (w *world) finish() {
	for i, r := range w.reads {
		at := uint64(i) * w.program.Units * unitBytes
		if got := w.host.Bytes[at : at+r.bytes]; bytes.Count(got, []byte{r.value}) != len(got) {
			require.Failf(w.t, "a canary died", "read %d gave %d instead of %d", i, got, r.value)
		}
	}
	for _, b := range w.live {
		w.must(w.m.FreeID(b.Addr, b.ID))
	}
}

// must replaces require.NoError, which takes longer than the calls under test.
func (w *world) must(err error) {
	if err != nil {
		require.NoError(w.t, err)
	}
}

// next returns a thread's next operation, or nil at its end.
func (w *world) next(thread int) *Op {
	if ops := w.program.Threads[thread]; w.at[thread] < len(ops) {
		return &ops[w.at[thread]]
	}
	return nil
}

// step executes a thread's next operation. Operations on a block whose allocation failed are skipped.
func (w *world) step(thread int) {
	op := w.next(thread)
	w.at[thread]++
	if op.do == allocate {
		w.allocate(op)
		return
	}
	b := w.live[op.block]
	switch op.do {
	case join:
		w.join(op)
		return
	case synchronize:
		w.must(w.order.StreamSynchronize(0, w.order.streams[op.stream]))
		w.order.waited(op.stream)
		return
	}
	if b != nil {
		w.on(b, op)
	}
}

func (w *world) on(b *block, op *Op) {
	stream := w.order.streams[op.stream]
	switch op.do {
	case write:
		w.order.touch(int(b.value), op.stream, b.Addr, b.bytes)
		w.must(w.order.MemsetD8Async(0, b.Addr, b.value, b.bytes, stream))
	case check:
		w.order.touch(int(b.value), op.stream, b.Addr, b.bytes)
		to := w.host.Addr + uint64(len(w.reads))*w.program.Units*unitBytes
		w.must(w.order.MemcpyDtoHAsync(0, to, b.Addr, b.bytes, stream))
		w.reads = append(w.reads, read{b.bytes, b.value})
	case record:
		w.must(w.m.RecordStream(b.Addr, stream))
	case free:
		delete(w.live, op.block)
		w.must(w.m.Free(b.Addr))
	case freeOn:
		delete(w.live, op.block)
		w.must(w.m.FreeOn(b.Addr, stream))
	}
}

func (w *world) join(op *Op) {
	w.must(w.order.EventRecord(0, w.event, w.order.streams[op.after]))
	w.must(w.order.StreamWaitEvent(0, w.order.streams[op.stream], w.event))
}

func (w *world) allocate(op *Op) {
	wanted := op.units * unitBytes
	given, err := w.m.AllocateKnowing(0, -1, w.order.streams[op.stream], devmgr.Lasting, wanted, 0)
	w.order.look()
	if err != nil {
		require.Equal(w.t, status.ResourceExhausted, status.CodeOf(err), "%v", err)
		require.Less(w.t, w.largestRun(), wanted, "memory that waiting would have given was refused: %v", err)
		return
	}
	w.values++
	for name, other := range w.live {
		if other.Addr < given.Addr+wanted && given.Addr < other.Addr+other.bytes {
			require.Failf(w.t, "blocks overlap", "%s and %s", name, op.block)
		}
	}
	w.live[op.block] = &block{Block: given, bytes: wanted, value: w.values}
}

// largestRun returns the size of the largest range of the pool without a block.
func (w *world) largestRun() (largest uint64) {
	begin := (w.ballast.Addr + w.ballast.Bytes)
	var run uint64
	for unit := range w.program.Units {
		addr := begin + unit*unitBytes
		run += unitBytes
		for _, b := range w.live {
			if b.Addr <= addr && addr < b.Addr+b.bytes {
				run = 0
			}
		}
		largest = max(largest, run)
	}
	return largest
}
