package sim_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/sim"
	"gpuconf/tests_go/stepping"
)

func newStream(t testing.TB, m *sim.Machine, flags gpu.StreamFlags) gpu.Stream {
	t.Helper()
	stream, err := m.StreamCreate(0, flags, 0)
	require.NoError(t, err)
	return stream
}

func newEvent(t testing.TB, m *sim.Machine) gpu.Event {
	t.Helper()
	event, err := m.EventCreate(0)
	require.NoError(t, err)
	return event
}

func hostAlloc(t testing.TB, m *sim.Machine, size uint64) gpu.HostMemory {
	t.Helper()
	memory, err := m.MemHostAlloc(0, size)
	require.NoError(t, err)
	return memory
}

// held returns a stream that waits for a word forever, with a fill behind it.
func held(t testing.TB, m *sim.Machine, addr uint64) (stream gpu.Stream, word *uint64) {
	t.Helper()
	stream = newStream(t, m, gpu.StreamDefault)
	memory := hostAlloc(t, m, 8)
	require.NoError(t, m.StreamWaitValue64(0, stream, memory.Addr, 1))
	require.NoError(t, m.MemsetD8Async(0, addr, 1, 16, stream))
	return stream, &memory.Words[0]
}

func TestNumbersComeAgainAndIDsDoNot(t *testing.T) {
	m := retained(t, "T4", sim.Options{})
	first, second := newStream(t, m, gpu.StreamDefault), newStream(t, m, gpu.StreamDefault)
	require.NotEqual(t, first, second)
	firstID, err := m.StreamGetID(0, first)
	require.NoError(t, err)
	require.NoError(t, m.StreamDestroy(0, first))
	require.Equal(t, first, newStream(t, m, gpu.StreamDefault), "the lowest free number")
	again, err := m.StreamGetID(0, first)
	require.NoError(t, err)
	require.NotEqual(t, firstID, again)

	event := newEvent(t, m)
	require.NoError(t, m.EventDestroy(0, event))
	require.Equal(t, event, newEvent(t, m))
}

func TestANumberIsTakenWhileItsWorkLasts(t *testing.T) {
	m := retained(t, "T4", sim.Options{})
	addr := alloc(t, m, 16)
	stream, word := held(t, m, addr)
	require.NoError(t, m.StreamDestroy(0, stream))
	require.NotEqual(t, stream, newStream(t, m, gpu.StreamDefault))
	atomic.StoreUint64(word, 1)
	require.Eventually(t, func() bool {
		next := newStream(t, m, gpu.StreamDefault)
		return next == stream
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, byte(1), view(addr, 16)[15])
}

// TestTheEndOfAContextDropsWork ends a context, or the machine, during work that can never run, and during waits for it.
func TestTheEndOfAContextDropsWork(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(*sim.Machine) error
		want gpu.Result
	}{
		"the context ends": {func(m *sim.Machine) error { return m.ContextRelease(0) }, gpu.ErrorInvalidContext},
		"the machine ends": {(*sim.Machine).Close, gpu.ErrorDeinitialized},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "2xT4", sim.Options{})
			require.NoError(t, m.ContextRetain(0))
			addr := alloc(t, m, 16)
			stream, _ := held(t, m, addr)
			event := newEvent(t, m)
			require.NoError(t, m.EventRecord(0, event, stream))
			waits := []func() error{
				func() error { return m.StreamSynchronize(0, stream) },
				func() error { return m.EventSynchronize(0, event) },
				func() error { return m.MemcpyHtoD(0, addr, []byte{1}) },
			}
			results := make(chan error, len(waits))
			for _, wait := range waits {
				go func() { results <- wait() }()
			}
			select {
			case err := <-results:
				t.Fatalf("a wait ended before the work: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
			require.NoError(t, row.end(m))
			for range waits {
				require.ErrorIs(t, <-results, row.want)
			}
			require.Zero(t, m.Inventory())
		})
	}
}

func TestAWaitForAnotherContextEndsWithIt(t *testing.T) {
	m := newMachine(t, "2xT4", sim.Options{})
	require.NoError(t, m.ContextRetain(0))
	require.NoError(t, m.ContextRetain(1))
	stream, _ := held(t, m, alloc(t, m, 16))
	event := newEvent(t, m)
	require.NoError(t, m.EventRecord(0, event, stream))
	other, err := m.StreamCreate(1, gpu.StreamNonBlocking, 0)
	require.NoError(t, err)
	require.NoError(t, m.StreamWaitEvent(1, other, event))
	done, err := m.StreamQuery(1, other)
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, m.ContextRelease(0))
	require.NoError(t, m.StreamSynchronize(1, other))
}

// TestMemoryThatIsGoneBreaksTheContext frees memory used by queued work, as a careless allocator would.
func TestMemoryThatIsGoneBreaksTheContext(t *testing.T) {
	type world struct {
		m          *sim.Machine
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
			taken := make(chan struct{})
			m := newMachine(t, "2xT4", sim.Options{BeforeWork: func(int, gpu.Stream) { <-taken }})
			require.NoError(t, m.ContextRetain(0))
			require.NoError(t, m.ContextRetain(1))
			w := world{m, alloc(t, m, 16), reserve(t, m, 1), hostAlloc(t, m, 8)}
			mapped(t, m, w.base, 1)
			stream := newStream(t, m, gpu.StreamNonBlocking)
			require.NoError(t, row.queue(w, stream))
			require.NoError(t, row.take(w))
			close(taken)
			require.ErrorIs(t, m.StreamSynchronize(0, stream), gpu.ErrorIllegalAddress)

			_, err := m.MemAlloc(0, 1)
			require.ErrorIs(t, err, gpu.ErrorIllegalAddress, "it is not forgotten")
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

// inSteps runs a test on a machine that executes its work step by step.
func inSteps(t *testing.T, test func(*testing.T, *sim.Machine, *stepping.Steps)) {
	synctest.Test(t, func(t *testing.T) {
		m, steps := openStepped(t)
		test(t, m, steps)
	})
}

func openStepped(t *testing.T) (*sim.Machine, *stepping.Steps) {
	steps := &stepping.Steps{}
	m := retained(t, "T4", sim.Options{BeforeWork: steps.Hold})
	t.Cleanup(steps.End)
	return m, steps
}

func TestWorkIsDoneInSteps(t *testing.T) {
	inSteps(t, func(t *testing.T, m *sim.Machine, steps *stepping.Steps) {
		addr := alloc(t, m, 16)
		a, b := newStream(t, m, gpu.StreamNonBlocking), newStream(t, m, gpu.StreamNonBlocking)
		require.Empty(t, steps.Steppable(0))
		require.False(t, steps.Step(0, a), "nothing to do")
		require.NoError(t, m.MemsetD8Async(0, addr, 1, 16, a))
		require.NoError(t, m.MemsetD8Async(0, addr, 2, 8, b))
		require.NoError(t, m.MemsetD8Async(0, addr, 3, 1, a))
		require.Equal(t, []gpu.Stream{a, b}, steps.Steppable(0))
		require.Empty(t, steps.Steppable(1))
		require.Equal(t, byte(0), view(addr, 16)[15])

		for _, step := range []struct {
			stream gpu.Stream
			want   []byte
		}{{b, []byte{2, 2, 0}}, {a, []byte{1, 1, 1}}, {a, []byte{3, 1, 1}}} {
			require.True(t, steps.Step(0, step.stream))
			memory := view(addr, 16)
			require.Equal(t, step.want, []byte{memory[0], memory[1], memory[8]})
		}
		require.Empty(t, steps.Steppable(0))
	})
}

// A waiting call returns when its own work is done, whatever else is queued.
func TestAWaitEndsWithWhatItWaitsFor(t *testing.T) {
	inSteps(t, func(t *testing.T, m *sim.Machine, steps *stepping.Steps) {
		addr := alloc(t, m, 4)
		producer, consumer, bystander := newStream(t, m, gpu.StreamNonBlocking), newStream(t, m, gpu.StreamNonBlocking), newStream(t, m, gpu.StreamDefault)
		event := newEvent(t, m)
		require.NoError(t, m.MemsetD8Async(0, addr, 1, 1, producer))
		require.NoError(t, m.EventRecord(0, event, producer))
		require.NoError(t, m.MemsetD8Async(0, addr+1, 1, 1, producer))
		require.NoError(t, m.StreamWaitEvent(0, consumer, event))
		require.NoError(t, m.MemsetD8Async(0, addr+2, 1, 1, consumer))
		require.NoError(t, m.MemsetD8Async(0, addr+3, 1, 1, bystander))
		require.Equal(t, []gpu.Stream{producer, bystander}, steps.Steppable(0), "the consumer waits")

		got := make([]byte, 4)
		waits := []struct {
			name string
			wait func() error
			need []gpu.Stream
			want []byte
		}{
			{"for the event", func() error { return m.EventSynchronize(0, event) }, []gpu.Stream{producer, producer}, []byte{1, 0, 0, 0}},
			{"for the consumer", func() error { return m.StreamSynchronize(0, consumer) }, []gpu.Stream{consumer, consumer}, []byte{1, 0, 1, 0}},
			{
				"for the legacy stream, and so for blocking ones", func() error { return m.MemcpyDtoH(0, got, addr) },
				[]gpu.Stream{bystander, gpu.StreamNull}, []byte{1, 0, 1, 1},
			},
			{"for all streams", func() error { return m.ContextSynchronize(0) }, []gpu.Stream{producer}, []byte{1, 1, 1, 1}},
		}
		for _, row := range waits {
			result := make(chan error, 1)
			go func() { result <- row.wait() }()
			for _, stream := range row.need {
				synctest.Wait()
				require.Empty(t, result, "%s: the wait ended before the work", row.name)
				require.True(t, steps.Step(0, stream), row.name)
			}
			require.Len(t, result, 1, "%s: the wait goes on", row.name)
			require.NoError(t, <-result)
			require.Equal(t, row.want, view(addr, 4), row.name)
		}
		require.Equal(t, []byte{1, 0, 1, 1}, got)
	})
}

func TestAWordLetsAStreamGoOn(t *testing.T) {
	inSteps(t, func(t *testing.T, m *sim.Machine, steps *stepping.Steps) {
		word := hostAlloc(t, m, 8)
		reader, writer := newStream(t, m, gpu.StreamNonBlocking), newStream(t, m, gpu.StreamNonBlocking)
		require.NoError(t, m.StreamWaitValue64(0, reader, word.Addr, 5))
		require.Empty(t, steps.Steppable(0), "the word is not written")
		require.NoError(t, m.StreamWriteValue64(0, writer, word.Addr, 4))
		require.NoError(t, m.StreamWriteValue64(0, writer, word.Addr, 5))
		for _, stream := range []gpu.Stream{writer, writer, reader} {
			require.Equal(t, []gpu.Stream{stream}, steps.Steppable(0))
			require.True(t, steps.Step(0, stream))
		}
		require.Equal(t, uint64(5), word.Words[0])

		require.NoError(t, m.StreamWaitValue64(0, reader, word.Addr, 6))
		require.Empty(t, steps.Steppable(0))
		atomic.StoreUint64(&word.Words[0], 7)
		time.Sleep(time.Second) // by synctest's clock: the stream checks the word again
		require.Equal(t, []gpu.Stream{reader}, steps.Steppable(0), "the host may write it, too")
		require.True(t, steps.Step(0, reader))
	})
}

func TestADestroyedStreamGoesOn(t *testing.T) {
	inSteps(t, func(t *testing.T, m *sim.Machine, steps *stepping.Steps) {
		addr := alloc(t, m, 1)
		stream := newStream(t, m, gpu.StreamNonBlocking)
		require.NoError(t, m.MemsetD8Async(0, addr, 1, 1, stream))
		require.NoError(t, m.StreamDestroy(0, stream))
		require.Equal(t, []gpu.Stream{stream}, steps.Steppable(0))
		require.True(t, steps.Step(0, stream))
		require.Equal(t, byte(1), view(addr, 1)[0])
		require.Equal(t, stream, newStream(t, m, gpu.StreamDefault))
	})
}

// outcomes runs a script with every order of steps, and collects the results.
func outcomes(t *testing.T, script func(m *sim.Machine, addr uint64)) (found []string) {
	t.Helper()
	var explore func(prefix []int) // prefix: the index of the chosen stream at each step
	explore = func(prefix []int) {
		m, steps := openStepped(t)
		addr := alloc(t, m, 3)
		script(m, addr)
		for depth := 0; ; depth++ {
			choices := steps.Steppable(0)
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
			require.True(t, steps.Step(0, choices[prefix[depth]]))
		}
		require.NoError(t, m.Close())
	}
	explore(nil)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEveryInterleavingCanBeTried(t *testing.T) { synctest.Test(t, everyInterleavingCanBeTried) }

func everyInterleavingCanBeTried(t *testing.T) {
	// write queues a letter into one stream and then another letter into another stream.
	write := func(m *sim.Machine, addr uint64, order func(first, second gpu.Stream), flags gpu.StreamFlags, second gpu.Stream) {
		first := newStream(t, m, flags)
		if second == 99 {
			second = newStream(t, m, flags)
		}
		require.NoError(t, m.MemsetD8Async(0, addr, 'a', 2, first))
		if order != nil {
			order(first, second)
		}
		require.NoError(t, m.MemsetD8Async(0, addr+1, 'b', 2, second))
	}
	require.Equal(t, []string{"aab", "abb"}, outcomes(t, func(m *sim.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamNonBlocking, 99)
	}), "two streams")
	require.Equal(t, []string{"aab", "abb"}, outcomes(t, func(m *sim.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamDefault, 99)
	}), "two blocking streams")
	require.Equal(t, []string{"aab", "abb"}, outcomes(t, func(m *sim.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamNonBlocking, gpu.StreamNull)
	}), "a non-blocking stream and the legacy one")
	require.Equal(t, []string{"abb"}, outcomes(t, func(m *sim.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamDefault, gpu.StreamLegacy)
	}), "a blocking stream and the legacy one")
	require.Equal(t, []string{"abb"}, outcomes(t, func(m *sim.Machine, addr uint64) {
		write(m, addr, nil, gpu.StreamDefault, gpu.StreamNull)
	}), "a blocking stream and the null one")
	require.Equal(t, []string{"abb"}, outcomes(t, func(m *sim.Machine, addr uint64) {
		write(m, addr, func(first, second gpu.Stream) {
			event := newEvent(t, m)
			require.NoError(t, m.EventRecord(0, event, first))
			require.NoError(t, m.StreamWaitEvent(0, second, event))
			require.NoError(t, m.EventDestroy(0, event))
		}, gpu.StreamNonBlocking, 99)
	}), "with an event")
	require.Equal(t, []string{"abb"}, outcomes(t, func(m *sim.Machine, addr uint64) {
		write(m, addr, func(first, second gpu.Stream) {
			word := hostAlloc(t, m, 8)
			require.NoError(t, m.StreamWriteValue64(0, first, word.Addr, 1))
			require.NoError(t, m.StreamWaitValue64(0, second, word.Addr, 1))
		}, gpu.StreamNonBlocking, 99)
	}), "with a word")
}

func TestHostMemoryStaysUntilTheEnd(t *testing.T) {
	m := retained(t, "T4", sim.Options{})
	memory := hostAlloc(t, m, 10000)
	memory.Bytes[9999] = 1
	require.NoError(t, m.MemFreeHost(0, memory.Addr))
	require.Zero(t, memory.Bytes[9999], "the page went back to the host")
	memory.Words[0] = 5
	require.Equal(t, memory.Addr, hostAlloc(t, m, 1).Addr, "lowest first")
	require.NoError(t, m.ContextRelease(0))
	require.Zero(t, m.Inventory())
	memory.Words[0] = 6
}
