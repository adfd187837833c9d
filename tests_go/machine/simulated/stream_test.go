package simulated_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/simulated"
)

// soon is how long a test waits for what has to happen.
const soon = 10 * time.Second

func newStream(m *simulated.Machine, flags gpu.StreamFlags) gpu.Stream {
	return attempt.Get(m.StreamCreate(0, flags, 0))
}

func newEvent(m *simulated.Machine) gpu.Event { return attempt.Get(m.EventCreate(0)) }

func hostAlloc(m *simulated.Machine, size uint64) gpu.HostMemory {
	return attempt.Get(m.MemHostAlloc(0, size))
}

// held returns a stream that waits for a word forever, with a fill behind it.
func held(t testing.TB, m *simulated.Machine, addr uint64) (stream gpu.Stream, word *uint64) {
	t.Helper()
	stream = newStream(m, gpu.StreamDefault)
	memory := hostAlloc(m, 8)
	require.NoError(t, m.StreamWaitValue64(0, stream, memory.Addr, 1))
	require.NoError(t, m.MemsetD8Async(0, addr, 1, 16, stream))
	return stream, &memory.Words[0]
}

func TestAWaitForAnotherContextEndsWithIt(t *testing.T) {
	m := newMachine(t, "2xT4", simulated.Options{})
	require.NoError(t, m.ContextRetain(0))
	require.NoError(t, m.ContextRetain(1))
	stream, _ := held(t, m, alloc(m, 16))
	event := newEvent(m)
	require.NoError(t, m.EventRecord(0, event, stream))
	other := attempt.Get(m.StreamCreate(1, gpu.StreamNonBlocking, 0))
	require.NoError(t, m.StreamWaitEvent(1, other, event))
	require.False(t, attempt.Get(m.StreamQuery(1, other)))
	require.NoError(t, m.ContextRelease(0))
	require.NoError(t, m.StreamSynchronize(1, other))
}

// TestMemoryThatIsGoneBreaksTheContext frees memory used by queued work, as a careless allocator would.
func TestMemoryThatIsGoneBreaksTheContext(t *testing.T) {
	type world struct {
		m          *simulated.Machine
		addr, base uint64
		host       gpu.HostMemory
	}
	for name, row := range map[string]struct {
		queue func(w world, s gpu.Stream) error
		take  func(w world) error
	}{
		"freed": {
			func(w world, s gpu.Stream) error { return w.m.MemsetD8Async(0, w.addr, 1, 16, s) },
			func(w world) error { return w.m.MemFree(0, w.addr) },
		},
		"unmapped": {
			func(w world, s gpu.Stream) error { return w.m.MemcpyDtoDAsync(0, w.addr, w.base, 16, s) },
			func(w world) error { return w.m.MemUnmap(w.base, granule) },
		},
		"host memory freed": {
			func(w world, s gpu.Stream) error { return w.m.MemcpyDtoHAsync(0, w.host.Addr, w.addr, 8, s) },
			func(w world) error { return w.m.MemFreeHost(0, w.host.Addr) },
		},
		"a timeline freed": {
			func(w world, s gpu.Stream) error { return w.m.StreamWriteValue64(0, s, w.host.Addr, 1) },
			func(w world) error { return w.m.MemFreeHost(0, w.host.Addr) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "2xT4", simulated.Options{Stepped: true})
			require.NoError(t, m.ContextRetain(0))
			require.NoError(t, m.ContextRetain(1))
			w := world{m, alloc(m, 16), reserve(m, 1), hostAlloc(m, 8)}
			mapped(t, m, w.base, 1)
			stream := newStream(m, gpu.StreamNonBlocking)
			require.NoError(t, row.queue(w, stream))
			require.NoError(t, row.take(w))
			m.Drain()
			_, err := m.MemAlloc(0, 1)
			require.ErrorIs(t, err, gpu.ErrorIllegalAddress, "it is not forgotten")
			require.ErrorIs(t, m.StreamSynchronize(0, stream), gpu.ErrorIllegalAddress)
			_, err = m.StreamQuery(0, stream)
			require.ErrorIs(t, err, gpu.ErrorIllegalAddress)
			_, err = m.MemAlloc(1, 1)
			require.NoError(t, err, "another GPU works")
			require.NoError(t, m.ContextRelease(0))
			require.NoError(t, m.ContextRetain(0))
			_, err = m.MemAlloc(0, 1)
			require.NoError(t, err, "a new context works")
		})
	}
}

// openStepped returns a machine that executes its work step by step.
func openStepped(t *testing.T) *simulated.Machine {
	return retained(t, "T4", simulated.Options{Stepped: true})
}

func TestWorkIsDoneInSteps(t *testing.T) {
	m := openStepped(t)
	addr := alloc(m, 16)
	a, b := newStream(m, gpu.StreamNonBlocking), newStream(m, gpu.StreamNonBlocking)
	require.Empty(t, m.Steppable(0))
	require.False(t, m.Step(0, a), "nothing to do")
	require.NoError(t, m.MemsetD8Async(0, addr, 1, 16, a))
	require.NoError(t, m.MemsetD8Async(0, addr, 2, 8, b))
	require.NoError(t, m.MemsetD8Async(0, addr, 3, 1, a))
	require.ElementsMatch(t, []gpu.Stream{a, b}, m.Steppable(0))
	require.Empty(t, m.Steppable(1))
	require.Equal(t, byte(0), view(addr, 16)[15])

	for _, step := range []struct {
		stream gpu.Stream
		want   []byte
	}{{b, []byte{2, 2, 0}}, {a, []byte{1, 1, 1}}, {a, []byte{3, 1, 1}}} {
		require.True(t, m.Step(0, step.stream))
		memory := view(addr, 16)
		require.Equal(t, step.want, []byte{memory[0], memory[1], memory[8]})
	}
	require.Empty(t, m.Steppable(0))
}

// A waiting call returns when its own work is done, whatever else is queued.
func TestAWaitEndsWithWhatItWaitsFor(t *testing.T) {
	m := openStepped(t)
	addr := alloc(m, 4)
	producer, consumer, bystander := newStream(m, gpu.StreamNonBlocking), newStream(m, gpu.StreamNonBlocking),
		newStream(m, gpu.StreamDefault)
	event := newEvent(m)
	require.NoError(t, m.MemsetD8Async(0, addr, 1, 1, producer))
	require.NoError(t, m.EventRecord(0, event, producer))
	require.NoError(t, m.MemsetD8Async(0, addr+1, 1, 1, producer))
	require.NoError(t, m.StreamWaitEvent(0, consumer, event))
	require.NoError(t, m.MemsetD8Async(0, addr+2, 1, 1, consumer))
	require.NoError(t, m.MemsetD8Async(0, addr+3, 1, 1, bystander))
	require.ElementsMatch(t, []gpu.Stream{producer, bystander}, m.Steppable(0), "the consumer waits")

	require.True(t, m.Step(0, producer))
	require.False(t, attempt.Get(m.EventQuery(0, event)))
	require.True(t, m.Step(0, producer))

	got := make([]byte, 4)
	for _, row := range []struct {
		name  string
		wait  func() error
		steps []gpu.Stream // whose work runs meanwhile
		want  []byte
	}{
		{"for the event", func() error { return m.EventSynchronize(0, event) }, nil, []byte{1, 0, 0, 0}},
		{"for the consumer", func() error { return m.StreamSynchronize(0, consumer) }, []gpu.Stream{consumer},
			[]byte{1, 0, 1, 0}},
		{
			"for the legacy stream, and so for blocking ones", func() error { return m.MemcpyDtoH(0, got, addr) },
			[]gpu.Stream{bystander, gpu.StreamNull}, []byte{1, 0, 1, 1},
		},
		{"for all streams", func() error { return m.ContextSynchronize(0) }, []gpu.Stream{producer},
			[]byte{1, 1, 1, 1}},
	} {
		result := make(chan error, 1)
		go func() { result <- row.wait() }()
		for begin := time.Now(); len(result) == 0; time.Sleep(time.Millisecond) {
			require.Less(t, time.Since(begin), soon, "%s: the wait goes on", row.name)
			for _, stream := range row.steps {
				m.Step(0, stream)
			}
		}
		require.NoError(t, <-result, row.name)
		require.Equal(t, row.want, view(addr, 4), row.name)
	}
	require.Equal(t, []byte{1, 0, 1, 1}, got)
}

func TestAWordLetsAStreamGoOn(t *testing.T) {
	m := openStepped(t)
	word := hostAlloc(m, 8)
	reader, writer := newStream(m, gpu.StreamNonBlocking), newStream(m, gpu.StreamNonBlocking)
	require.NoError(t, m.StreamWaitValue64(0, reader, word.Addr, 5))
	require.Empty(t, m.Steppable(0), "the word is not written")
	require.NoError(t, m.StreamWriteValue64(0, writer, word.Addr, 4))
	require.NoError(t, m.StreamWriteValue64(0, writer, word.Addr, 5))
	for _, stream := range []gpu.Stream{writer, writer, reader} {
		require.Equal(t, []gpu.Stream{stream}, m.Steppable(0))
		require.True(t, m.Step(0, stream))
	}
	require.Equal(t, uint64(5), word.Words[0])

	require.NoError(t, m.StreamWaitValue64(0, reader, word.Addr, 6))
	require.Empty(t, m.Steppable(0))
	atomic.StoreUint64(&word.Words[0], 7)
	require.Equal(t, []gpu.Stream{reader}, m.Steppable(0), "the host may write it, too")
	require.True(t, m.Step(0, reader))
}

func TestADestroyedStreamGoesOn(t *testing.T) {
	m := openStepped(t)
	addr := alloc(m, 1)
	stream := newStream(m, gpu.StreamNonBlocking)
	require.NoError(t, m.MemsetD8Async(0, addr, 1, 1, stream))
	require.NoError(t, m.StreamDestroy(0, stream))
	require.Equal(t, []gpu.Stream{stream}, m.Steppable(0))
	require.True(t, m.Step(0, stream))
	require.Equal(t, byte(1), view(addr, 1)[0])
}

// outcomes runs a script with every order of steps, and collects the results.
func outcomes(t *testing.T, script func(m *simulated.Machine, addr uint64)) (found []string) {
	t.Helper()
	var explore func(prefix []int) // prefix: the index of the chosen stream at each step
	explore = func(prefix []int) {
		m := openStepped(t)
		addr := alloc(m, 3)
		script(m, addr)
		for depth := 0; ; depth++ {
			choices := m.Steppable(0)
			if len(choices) == 0 {
				found = append(found, string(view(addr, 3)))
				break
			}
			if depth == len(prefix) {
				for i := range choices[1:] {
					explore(append(slices.Clone(prefix), i+1))
				}
				prefix = append(prefix, 0)
			}
			require.True(t, m.Step(0, choices[prefix[depth]]))
		}
		require.NoError(t, m.Close())
	}
	explore(nil)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEveryInterleavingCanBeTried(t *testing.T) {
	// write queues a letter into one stream and then another letter into another stream.
	write := func(m *simulated.Machine, addr uint64, order func(first, second gpu.Stream), flags gpu.StreamFlags,
		second gpu.Stream) {
		first := newStream(m, flags)
		if second == 99 {
			second = newStream(m, flags)
		}
		require.NoError(t, m.MemsetD8Async(0, addr, 'a', 2, first))
		if order != nil {
			order(first, second)
		}
		require.NoError(t, m.MemsetD8Async(0, addr+1, 'b', 2, second))
	}
	require.Equal(t, []string{"aab", "abb"}, outcomes(t, func(m *simulated.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamNonBlocking, 99)
	}), "two streams")
	require.Equal(t, []string{"aab", "abb"}, outcomes(t, func(m *simulated.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamDefault, 99)
	}), "two blocking streams")
	require.Equal(t, []string{"aab", "abb"}, outcomes(t, func(m *simulated.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamNonBlocking, gpu.StreamNull)
	}), "a non-blocking stream and the legacy one")
	require.Equal(t, []string{"abb"}, outcomes(t, func(m *simulated.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamDefault, gpu.StreamLegacy)
	}), "a blocking stream and the legacy one")
	require.Equal(t, []string{"abb"}, outcomes(t, func(m *simulated.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamDefault, gpu.StreamNull)
	}), "a blocking stream and the null one")
	require.Equal(t, []string{"abb"}, outcomes(t, func(m *simulated.Machine, addr uint64) {
		write(m, addr, func(first, second gpu.Stream) {
			event := newEvent(m)
			require.NoError(t, m.EventRecord(0, event, first))
			require.NoError(t, m.StreamWaitEvent(0, second, event))
			require.NoError(t, m.EventDestroy(0, event))
		}, gpu.StreamNonBlocking, 99)
	}), "with an event")
	require.Equal(t, []string{"abb"}, outcomes(t, func(m *simulated.Machine, addr uint64) {
		write(m, addr, func(first, second gpu.Stream) {
			word := hostAlloc(m, 8)
			require.NoError(t, m.StreamWriteValue64(0, first, word.Addr, 1))
			require.NoError(t, m.StreamWaitValue64(0, second, word.Addr, 1))
		}, gpu.StreamNonBlocking, 99)
	}), "with a word")
}

func TestHostMemoryStaysUntilTheEnd(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	memory := hostAlloc(m, 10000)
	memory.Bytes[9999] = 1
	require.NoError(t, m.MemFreeHost(0, memory.Addr))
	require.Zero(t, memory.Bytes[9999], "the page went back to the host")
	memory.Words[0] = 5
	require.Equal(t, memory.Addr, hostAlloc(m, 1).Addr, "lowest first")
	require.NoError(t, m.ContextRelease(0))
	require.Zero(t, m.Inventory())
	memory.Words[0] = 6
}
