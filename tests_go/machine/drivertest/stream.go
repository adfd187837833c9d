package drivertest

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

// streaming runs a check on a retained device.
func streaming(check func(*testing.T, fixture)) func(*testing.T, fixture) {
	return func(t *testing.T, f fixture) { check(t, f.retain(t)) }
}

// held runs a check on a retained device whose streams can be blocked by a word.
func held(check func(*testing.T, fixture)) func(*testing.T, fixture) {
	return func(t *testing.T, f fixture) {
		if !f.devices[f.ordinal].StreamMemOps {
			t.Skip("the device's streams cannot wait for words")
		}
		check(t, f.retain(t))
	}
}

func (f fixture) stream(t *testing.T, flags gpu.StreamFlags) gpu.Stream {
	t.Helper()
	stream := attempt.Get(f.StreamCreate(f.ordinal, flags, 0))
	t.Cleanup(func() { ended(t, f.StreamDestroy(f.ordinal, stream)) })
	return stream
}

func (f fixture) event(t *testing.T) gpu.Event {
	t.Helper()
	event := attempt.Get(f.EventCreate(f.ordinal))
	t.Cleanup(func() { ended(t, f.EventDestroy(f.ordinal, event)) })
	return event
}

func (f fixture) host(t *testing.T, bytes uint64) gpu.HostMemory {
	t.Helper()
	memory := attempt.Get(f.MemHostAlloc(f.ordinal, bytes))
	t.Cleanup(func() { ended(t, f.MemFreeHost(f.ordinal, memory.Addr)) })
	return memory
}

// hold blocks a stream until release, which the test calls on every way out.
func (f fixture) hold(t *testing.T, stream gpu.Stream) (release func()) {
	t.Helper()
	word := f.host(t, 8)
	atomic.StoreUint64(&word.Words[0], 0)
	require.NoError(t, f.StreamWaitValue64(f.ordinal, stream, word.Addr, 1))
	release = func() { atomic.StoreUint64(&word.Words[0], 1) }
	t.Cleanup(func() {
		release()
		ended(t, f.StreamSynchronize(f.ordinal, stream))
	})
	return release
}

func (f fixture) busy(t *testing.T, stream gpu.Stream) bool {
	t.Helper()
	done := attempt.Get(f.StreamQuery(f.ordinal, stream))
	return !done
}

// eventually waits for a condition that needs only time.
func eventually(t *testing.T, done func() bool, what string) {
	t.Helper()
	require.Eventually(t, done, 30*time.Second, 50*time.Microsecond, what)
}

func aStreamKeepsItsOrder(t *testing.T, f fixture) {
	runtime.LockOSThread() // for one per-thread stream
	defer runtime.UnlockOSThread()
	const size = 64 << 10
	a, b := f.alloc(t, size), f.alloc(t, size)
	for _, stream := range []gpu.Stream{
		gpu.StreamNull, gpu.StreamLegacy, gpu.StreamPerThread, f.stream(t, gpu.StreamDefault),
		f.stream(t, gpu.StreamNonBlocking),
	} {
		for i := range 50 {
			require.NoError(t, f.MemsetD8Async(f.ordinal, a, byte(i), size, stream))
			require.NoError(t, f.MemcpyDtoDAsync(f.ordinal, b, a, size, stream))
			require.NoError(t, f.MemsetD8Async(f.ordinal, a, 0xff, size, stream))
			require.NoError(t, f.MemsetD8Async(f.ordinal, b+5, byte(i+1), 5, stream))
		}
		require.NoError(t, f.StreamSynchronize(f.ordinal, stream))
		require.False(t, f.busy(t, stream))
		want := bytes.Repeat([]byte{49}, 5)
		want = append(append(want, bytes.Repeat([]byte{50}, 5)...), want...)
		require.Equal(t, want, f.read(t, b, 15))
		require.Equal(t, []byte{0xff}, f.read(t, a, 1))
	}
}

func streamsGoOnAlone(t *testing.T, f fixture) {
	addr := f.alloc(t, 2*mib)
	slow, fast := f.stream(t, gpu.StreamNonBlocking), f.stream(t, gpu.StreamNonBlocking)
	release := f.hold(t, slow)
	require.NoError(t, f.MemsetD8Async(f.ordinal, addr, 1, mib, slow))
	require.NoError(t, f.MemsetD8Async(f.ordinal, addr+mib, 2, mib, fast))
	eventually(t, func() bool { return !f.busy(t, fast) }, "the other stream is held back, too")
	require.True(t, f.busy(t, slow))
	release()
	require.NoError(t, f.StreamSynchronize(f.ordinal, slow))
	require.Equal(t, []byte{1, 2}, f.read(t, addr+mib-1, 2))
}

func theLegacyStreamWaitsForBlockingOnes(t *testing.T, f fixture) {
	addr := f.alloc(t, mib)
	blocking, other, apart := f.stream(t, gpu.StreamDefault), f.stream(t, gpu.StreamDefault),
		f.stream(t, gpu.StreamNonBlocking)
	release := f.hold(t, blocking)
	require.NoError(t, f.MemsetD8Async(f.ordinal, addr, 1, mib, blocking))
	require.NoError(t, f.MemsetD8Async(f.ordinal, addr, 2, mib/2, gpu.StreamNull))
	require.NoError(t, f.MemsetD8Async(f.ordinal, addr, 3, mib/4, other))
	require.NoError(t, f.MemsetD8Async(f.ordinal, addr, 4, 1, apart))
	eventually(t, func() bool { return !f.busy(t, apart) }, "a non-blocking stream is held back")
	require.True(t, f.busy(t, gpu.StreamNull))
	require.True(t, f.busy(t, other))
	release()
	data := f.read(t, addr, mib) // waits, because it runs in the legacy stream
	require.Equal(t, byte(3), data[0], "the last write to it")
	require.Equal(t, byte(3), data[mib/4-1])
	require.Equal(t, byte(2), data[mib/4])
	require.Equal(t, byte(1), data[mib/2])
}

func destroyedStreamsFinish(t *testing.T, f fixture) {
	addr := f.alloc(t, mib)
	stream := attempt.Get(f.StreamCreate(f.ordinal, gpu.StreamNonBlocking, 0))
	event := f.event(t)
	for i := range 20 {
		require.NoError(t, f.MemsetD8Async(f.ordinal, addr, byte(i), mib, stream))
	}
	require.NoError(t, f.EventRecord(f.ordinal, event, stream))
	require.NoError(t, f.StreamDestroy(f.ordinal, stream))
	require.NoError(t, f.EventSynchronize(f.ordinal, event))
	require.Equal(t, []byte{19}, f.read(t, addr+mib-1, 1))
}

func streamIDsAreUnique(t *testing.T, f fixture) {
	seen := map[uint64]bool{}
	add := func(stream gpu.Stream) {
		id, err := f.StreamGetID(f.ordinal, stream)
		if errors.Is(err, gpu.ErrorNotSupported) {
			t.Skip("the driver has no stream ids")
		}
		require.NoError(t, err)
		require.False(t, seen[id], "id %d came twice", id)
		seen[id] = true
		require.Equal(t, id, attempt.Get(f.StreamGetID(f.ordinal, stream)))
	}
	add(gpu.StreamNull)
	add(f.stream(t, gpu.StreamDefault))
	for range 100 {
		stream := attempt.Get(f.StreamCreate(f.ordinal, gpu.StreamNonBlocking, 0))
		add(stream)
		require.NoError(t, f.StreamDestroy(f.ordinal, stream))
	}
}

func prioritiesAreBroughtIntoRange(t *testing.T, f fixture) {
	device := f.devices[f.ordinal]
	for _, row := range []struct{ asked, want int }{
		{device.LeastPriority, device.LeastPriority}, {device.GreatestPriority, device.GreatestPriority},
		{device.LeastPriority + 100, device.LeastPriority}, {device.GreatestPriority - 100, device.GreatestPriority},
	} {
		stream := attempt.Get(f.StreamCreate(f.ordinal, gpu.StreamNonBlocking, row.asked))
		require.Equal(t, row.want, attempt.Get(f.StreamGetPriority(f.ordinal, stream)))
		require.NoError(t, f.StreamDestroy(f.ordinal, stream))
	}
}

func eventsOrderStreams(t *testing.T, f fixture) {
	addr := f.alloc(t, mib)
	producer, consumer := f.stream(t, gpu.StreamNonBlocking), f.stream(t, gpu.StreamNonBlocking)
	event := f.event(t)
	done := attempt.Get(f.EventQuery(f.ordinal, event))
	require.True(t, done, "an event that was never recorded")
	require.NoError(t, f.EventSynchronize(f.ordinal, event))
	require.NoError(t, f.StreamWaitEvent(f.ordinal, consumer, event))
	for i := range 50 {
		require.NoError(t, f.MemsetD8Async(f.ordinal, addr, byte(i), mib, producer))
		require.NoError(t, f.EventRecord(f.ordinal, event, producer))
		require.NoError(t, f.StreamWaitEvent(f.ordinal, consumer, event))
		require.NoError(t, f.MemsetD8Async(f.ordinal, addr+mib-1, byte(i+100), 1, consumer))
		require.NoError(t, f.EventRecord(f.ordinal, event, consumer))
		require.NoError(t, f.StreamWaitEvent(f.ordinal, producer, event))
	}
	require.NoError(t, f.StreamSynchronize(f.ordinal, consumer))
	require.Equal(t, []byte{49, 149}, f.read(t, addr+mib-2, 2))
	require.NoError(t, f.EventSynchronize(f.ordinal, event))
	done = attempt.Get(f.EventQuery(f.ordinal, event))
	require.True(t, done)
}

func waitsKeepTheMarkOfTheirTime(t *testing.T, f fixture) {
	slow, fast := f.stream(t, gpu.StreamNonBlocking), f.stream(t, gpu.StreamNonBlocking)
	event := attempt.Get(f.EventCreate(f.ordinal))
	require.NoError(t, f.EventRecord(f.ordinal, event, fast)) // done at once
	release := f.hold(t, slow)
	require.NoError(t, f.StreamWaitEvent(f.ordinal, fast, event))
	require.NoError(t, f.EventRecord(f.ordinal, event, slow)) // held: too late for the wait above
	eventually(t, func() bool { return !f.busy(t, fast) }, "a later record held a stream back")
	done := attempt.Get(f.EventQuery(f.ordinal, event))
	require.False(t, done)

	require.NoError(t, f.StreamWaitEvent(f.ordinal, fast, event))
	require.NoError(t, f.EventDestroy(f.ordinal, event))
	require.True(t, f.busy(t, fast), "the wait went with the event")
	release()
	require.NoError(t, f.StreamSynchronize(f.ordinal, fast))
}

func eventsCrossDevices(t *testing.T, f fixture) {
	if len(f.devices) < 2 {
		t.Skip("one device")
	}
	other := f
	other.ordinal = 0
	other.retain(t)
	slow, fast := f.stream(t, gpu.StreamNonBlocking), other.stream(t, gpu.StreamNonBlocking)
	release := f.hold(t, slow)
	event := f.event(t)
	require.NoError(t, f.EventRecord(f.ordinal, event, slow))
	require.NoError(t, other.StreamWaitEvent(other.ordinal, fast, event))
	require.True(t, other.busy(t, fast))
	release()
	require.NoError(t, other.StreamSynchronize(other.ordinal, fast))
	require.False(t, f.busy(t, slow))
}

func wordsAreWrittenInOrder(t *testing.T, f fixture) {
	const size = 64 << 10
	addr, stream := f.alloc(t, size), f.stream(t, gpu.StreamNonBlocking)
	timeline, copied := f.host(t, 24), f.host(t, size)
	atomic.StoreUint64(&timeline.Words[1], 0)
	for i := uint64(1); i <= 50; i++ {
		require.NoError(t, f.MemsetD8Async(f.ordinal, addr, byte(i), size, stream))
		require.NoError(t, f.MemcpyDtoHAsync(f.ordinal, copied.Addr, addr, size, stream))
		require.NoError(t, f.StreamWriteValue64(f.ordinal, stream, timeline.Addr+8, i<<32|i))
		eventually(t, func() bool { return atomic.LoadUint64(&timeline.Words[1]) == i<<32|i },
			"the word is not written")
		require.Equal(t, bytes.Repeat([]byte{byte(i)}, size), copied.Bytes, "the word came before the work")
	}
}

func wordsHoldStreamsBack(t *testing.T, f fixture) {
	word, stream := f.host(t, 8), f.stream(t, gpu.StreamNonBlocking)
	for _, row := range []struct {
		name        string
		word, value uint64
		passes      bool
	}{
		{"equal", 7, 7, true}, {"more", 8, 7, true}, {"less", 6, 7, false}, {"the start", 0, 1, false},
		{"more, around the end", 2, math.MaxUint64, true}, {"less, around the end", math.MaxUint64, 2, false},
		{"half the way", 1 << 63, 0, false}, {"almost half the way", 1<<63 - 1, 0, true},
	} {
		atomic.StoreUint64(&word.Words[0], row.word)
		require.NoError(t, f.StreamWaitValue64(f.ordinal, stream, word.Addr, row.value))
		if !row.passes {
			time.Sleep(time.Millisecond)
			require.True(t, f.busy(t, stream), row.name)
			atomic.StoreUint64(&word.Words[0], row.value)
		}
		require.NoError(t, f.StreamSynchronize(f.ordinal, stream), row.name)
	}
}

func wordsInDeviceMemory(t *testing.T, f fixture) {
	addr, stream := f.alloc(t, 64), f.stream(t, gpu.StreamNonBlocking)
	require.NoError(t, f.MemsetD8(f.ordinal, addr, 0, 64))
	require.NoError(t, f.StreamWriteValue64(f.ordinal, stream, addr+8, 0x0102030405060708))
	require.NoError(t, f.StreamWaitValue64(f.ordinal, stream, addr+8, 0x0102030405060708))
	require.NoError(t, f.StreamSynchronize(f.ordinal, stream))
	require.Equal(t, []byte{0, 8, 7, 6, 5, 4, 3, 2, 1, 0}, f.read(t, addr+7, 10))
}

func devicesWithoutWords(t *testing.T, f fixture) {
	for _, device := range f.devices {
		if device.StreamMemOps {
			continue
		}
		f.ordinal = device.Ordinal
		f.retain(t)
		word, stream := f.host(t, 8), f.stream(t, gpu.StreamNonBlocking)
		require.ErrorIs(t, f.StreamWriteValue64(f.ordinal, stream, word.Addr, 1), gpu.ErrorNotSupported)
		require.ErrorIs(t, f.StreamWaitValue64(f.ordinal, stream, word.Addr, 1), gpu.ErrorNotSupported)
	}
}

func asyncArgumentsAreChecked(t *testing.T, f fixture) {
	const size = 4 * mib
	addr, host, stream := f.alloc(t, size), f.host(t, 64), f.stream(t, gpu.StreamNonBlocking)
	require.NoError(t, f.MemsetD8(f.ordinal, addr, 7, size))
	for name, place := range map[string]struct{ addr, bytes uint64 }{
		"over the end": {addr + size - 8, 16}, "at the end": {addr + size, 16}, "null": {0, 16},
		"around the address space": {math.MaxUint64 - 7, 16},
	} {
		require.ErrorIs(t, f.MemsetD8Async(f.ordinal, place.addr, 9, place.bytes, stream), gpu.ErrorInvalidValue, name)
		require.ErrorIs(t, f.MemcpyDtoHAsync(f.ordinal, host.Addr, place.addr, place.bytes, stream),
			gpu.ErrorInvalidValue, name)
		require.ErrorIs(t, f.MemcpyDtoDAsync(f.ordinal, addr, place.addr, place.bytes, stream), gpu.ErrorInvalidValue,
			name)
		require.ErrorIs(t, f.MemcpyDtoDAsync(f.ordinal, place.addr, addr, place.bytes, stream), gpu.ErrorInvalidValue,
			name)
	}
	require.NoError(t, f.StreamSynchronize(f.ordinal, stream))
	require.Equal(t, bytes.Repeat([]byte{7}, size), f.read(t, addr, size), "a refused call wrote")
}

func hostMemoryRoundTrips(t *testing.T, f fixture) {
	const size = 1000
	addr, stream := f.alloc(t, size), f.stream(t, gpu.StreamNonBlocking)
	from, to := f.host(t, size), f.host(t, size)
	for _, memory := range []gpu.HostMemory{from, to} {
		require.NotZero(t, memory.Addr)
		require.Zero(t, memory.Addr%8)
		require.Len(t, memory.Bytes, size)
		require.Len(t, memory.Words, size/8)
	}
	from.Words[1] = 0x0102030405060708
	require.Equal(t, []byte{8, 7, 6, 5, 4, 3, 2, 1}, from.Bytes[8:16], "two views of one memory")
	for i := range from.Bytes {
		from.Bytes[i], to.Bytes[i] = byte(i*3), 0
	}
	require.NoError(t, f.MemcpyHtoD(f.ordinal, addr, from.Bytes))
	require.NoError(t, f.MemcpyDtoHAsync(f.ordinal, to.Addr+1, addr, size-1, stream))
	require.NoError(t, f.StreamSynchronize(f.ordinal, stream))
	require.Equal(t, from.Bytes[:size-1], to.Bytes[1:])
	require.Zero(t, to.Bytes[0])

	gone := attempt.Get(f.MemHostAlloc(f.ordinal, size))
	require.NoError(t, f.MemFreeHost(f.ordinal, gone.Addr))
	require.ErrorIs(t, f.MemFreeHost(f.ordinal, gone.Addr), gpu.ErrorInvalidValue)
}
