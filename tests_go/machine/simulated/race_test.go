package simulated_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
)

func TestGoroutinesShareAMachine(t *testing.T) {
	m := newMachine(t, "4xT4:256MiB", simulated.Options{})
	injector := faults.NewInjector(m, faults.Seeded(0.05, 7, gpu.ErrorOutOfMemory))
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for range 50 {
				_ = useDevice(injector, worker%4)
				_, _ = m.Devices()
				_, _ = m.Live()
			}
		})
	}
	group.Wait()
	for ordinal := range 4 {
		for m.ContextRelease(ordinal) == nil { // left over by an injected failure
		}
	}
	allocations, retains := m.Live()
	require.Equal(t, []int{0, 0}, []int{allocations, retains})
}

// closeInTheMidst closes a machine while goroutines use it. Each call succeeds or is refused.
func closeInTheMidst(t *testing.T, m *simulated.Machine, goroutines int, use func() error) {
	var group sync.WaitGroup
	started := make(chan struct{}, goroutines)
	for range goroutines {
		group.Go(func() {
			for first := true; ; first = false {
				err := use()
				if first {
					started <- struct{}{}
				}
				if err != nil {
					if !errors.Is(err, gpu.ErrorDeinitialized) {
						t.Errorf("a call failed with %v", err)
					}
					return
				}
			}
		})
	}
	<-started
	require.NoError(t, m.Close())
	group.Wait()
}

// TestCloseWaitsForCopies closes a machine during copies: none accesses unmapped memory.
func TestCloseWaitsForCopies(t *testing.T) {
	for range 20 {
		m := retained(t, "T4", simulated.Options{})
		addr := alloc(m, 4*mib)
		closeInTheMidst(t, m, 4, func() error {
			data := make([]byte, 4*mib)
			return errors.Join(m.MemsetD8(0, addr, 1, 4*mib), m.MemcpyDtoH(0, data, addr),
				m.MemcpyHtoD(0, addr, data))
		})
	}
}

func TestCloseFromManyGoroutines(t *testing.T) {
	m := retained(t, "2xT4", simulated.Options{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// useManaged allocates more managed memory than the card has, and writes at its end.
func useManaged(driver gpu.Driver, ordinal int) (err error) {
	defer attempt.Catch(&err)
	const size = 96 * mib
	addr := attempt.Get(driver.MemAllocManaged(ordinal, size))
	defer func() { err = errors.Join(err, twice(func() error { return driver.MemFree(ordinal, addr) })) }()
	attempt.Do(driver.MemcpyHtoD(ordinal, addr+size-7, []byte("managed")))
	data := make([]byte, 7)
	attempt.Do(driver.MemcpyDtoH(ordinal, data, addr+size-7))
	if string(data) != "managed" {
		return fmt.Errorf("read %q", data)
	}
	return nil
}

// useStreams is a careful user of everything except memory: like useDevice, it releases what it takes.
func useStreams(driver gpu.Driver, ordinal int) (err error) {
	defer attempt.Catch(&err)
	attempt.Do(driver.ContextRetain(ordinal))
	defer func() { err = errors.Join(err, twice(func() error { return driver.ContextRelease(ordinal) })) }()
	host := attempt.Get(driver.MemHostAlloc(ordinal, 4096))
	defer func() { err = errors.Join(err, twice(func() error { return driver.MemFreeHost(ordinal, host.Addr) })) }()
	stream := attempt.Get(driver.StreamCreate(ordinal, gpu.StreamDefault, -1))
	defer func() {
		// Queued work must be done before its memory is freed.
		err = errors.Join(err, twice(func() error { return driver.StreamSynchronize(ordinal, stream) }))
		err = errors.Join(err, twice(func() error { return driver.StreamDestroy(ordinal, stream) }))
	}()
	event := attempt.Get(driver.EventCreate(ordinal))
	defer func() { err = errors.Join(err, twice(func() error { return driver.EventDestroy(ordinal, event) })) }()
	attempt.Get(driver.StreamGetID(ordinal, stream))
	attempt.Get(driver.StreamGetPriority(ordinal, stream))
	attempt.Do(useManaged(driver, ordinal))
	return useMappings(driver, ordinal, func(addr uint64) error {
		return useQueue(driver, ordinal, stream, event,
			host, addr)
	})
}

// useMappings maps one handle at two places while it uses it.
func useMappings(driver gpu.Driver, ordinal int, use func(addr uint64) error) (err error) {
	defer attempt.Catch(&err)
	size, _, err := driver.MemGetAllocationGranularity(ordinal)
	if err != nil {
		return err
	}
	addr := attempt.Get(driver.MemAddressReserve(2*size, 0))
	defer func() { err = errors.Join(err, twice(func() error { return driver.MemAddressFree(addr, 2*size) })) }()
	handle := attempt.Get(driver.MemCreate(ordinal, size))
	defer func() { err = errors.Join(err, twice(func() error { return driver.MemRelease(handle) })) }()
	for _, place := range []uint64{addr, addr + size} {
		attempt.Do(driver.MemMap(place, size, handle))
		defer func() { err = errors.Join(err, twice(func() error { return driver.MemUnmap(place, size) })) }()
	}
	attempt.Do(driver.MemSetAccess(ordinal, addr, 2*size))
	return use(addr)
}

// useQueue queues one entry of each kind and waits for it.
func useQueue(driver gpu.Driver, ordinal int, stream gpu.Stream, event gpu.Event, host gpu.HostMemory, addr uint64) (
	err error) {
	defer attempt.Catch(&err)
	// Whatever fails, nothing may be left queued when the caller unmaps.
	defer func() {
		err = errors.Join(err, twice(func() error { return driver.StreamSynchronize(ordinal, stream) }))
	}()
	for _, call := range []func() error{
		func() error { return driver.MemsetD8Async(ordinal, addr, 5, 64, stream) },
		func() error { return driver.MemcpyDtoDAsync(ordinal, addr+64, addr, 64, stream) },
		func() error { return driver.MemcpyDtoHAsync(ordinal, host.Addr+8, addr+64, 64, stream) },
		func() error { return driver.StreamWriteValue64(ordinal, stream, host.Addr, 1) },
		func() error { return driver.StreamWaitValue64(ordinal, stream, host.Addr, 1) },
		func() error { return driver.EventRecord(ordinal, event, stream) },
		func() error { return driver.StreamWaitEvent(ordinal, gpu.StreamNull, event) },
		func() error { return driver.EventSynchronize(ordinal, event) },
	} {
		attempt.Do(call())
	}
	if done, err := driver.EventQuery(ordinal, event); err != nil || !done {
		return errors.Join(err, unless(done, "the event is not done after a wait for it"))
	}
	attempt.Get(driver.StreamQuery(ordinal, stream))
	if capture, err := driver.StreamGetCaptureInfo(ordinal, stream); err != nil || capture != 0 {
		return errors.Join(err, unless(capture == 0, "a stream is captured"))
	}
	attempt.Do(driver.ContextSynchronize(ordinal))
	// Read with a call: a host view would fault if another goroutine closes the machine at this moment.
	read := make([]byte, 64)
	attempt.Do(driver.MemcpyDtoH(ordinal, read, addr+64))
	return unless(read[0] == 5 && read[63] == 5, "the work is not done after a wait for it")
}

func unless(good bool, what string) error {
	if good {
		return nil
	}
	return errors.New(what)
}

func TestGoroutinesShareStreamsAndMappings(t *testing.T) {
	m := newMachine(t, "4xT4:256MiB", simulated.Options{})
	injector := faults.NewInjector(m, faults.Seeded(0.01, 7, gpu.ErrorUnknown))
	for ordinal := range 4 {
		// otherwise, what one leaves after a failure would depend on another's context
		require.NoError(t, m.ContextRetain(ordinal))
	}
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for range 40 {
				if err := useStreams(injector, worker%4); err != nil && !errors.Is(err, gpu.ErrorUnknown) {
					t.Error(err)
				}
				_ = m.Inventory()
			}
		})
	}
	group.Wait()
	injector.SetFaults()
	for ordinal := range 4 {
		require.NoError(t, useStreams(injector, ordinal))
	}
}

// TestCloseInTheMidstOfStreams closes a machine during all kinds of use.
func TestCloseInTheMidstOfStreams(t *testing.T) {
	for range 20 {
		m := retained(t, "T4", simulated.Options{})
		closeInTheMidst(t, m, 8, func() error { return useStreams(m, 0) })
	}
}

// TestCloseInTheMidstOfQueries closes a machine during calls that need no context. One of them once used the machine
// after it was freed, and slept for ever on its lock.
func TestCloseInTheMidstOfQueries(t *testing.T) {
	for range 300 {
		m := newMachine(t, "T4", simulated.Options{})
		closeInTheMidst(t, m, 8, func() error {
			_, _, err := m.MemGetAllocationGranularity(0)
			return err
		})
	}
}

// TestOneWordOrdersTwoStreams passes a token between two streams through words alone, many times.
func TestOneWordOrdersTwoStreams(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	addr, words := alloc(m, mib), hostAlloc(m, 16)
	a, b := newStream(m, gpu.StreamNonBlocking), newStream(m, gpu.StreamNonBlocking)
	for i := range uint64(200) {
		require.NoError(t, m.StreamWaitValue64(0, a, words.Addr+8, i))
		require.NoError(t, m.MemsetD8Async(0, addr, byte(2*i), 4096, a))
		require.NoError(t, m.StreamWriteValue64(0, a, words.Addr, i+1))
		require.NoError(t, m.StreamWaitValue64(0, b, words.Addr, i+1))
		require.NoError(t, m.MemcpyDtoDAsync(0, addr+4096*(i+1), addr, 4096, b))
		require.NoError(t, m.StreamWriteValue64(0, b, words.Addr+8, i+1))
	}
	require.NoError(t, m.StreamSynchronize(0, b))
	for i := range uint64(200) {
		require.Equal(t, byte(2*i), view(addr+4096*(i+1), 4096)[4095])
	}
}

// A stream that waited for a word that only the host writes once slept forever: the alarm that made it check again
// could go off between its last check and its sleep.
func TestAWordOfTheHostsIsNotMissed(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	word := hostAlloc(m, 8)
	stream := newStream(m, gpu.StreamNonBlocking)
	for n := uint64(1); n <= 2000; n++ {
		require.NoError(t, m.StreamWaitValue64(0, stream, word.Addr, n))
		for range n % 50 {
			runtime.Gosched()
		}
		atomic.StoreUint64(&word.Words[0], n)
		require.NoError(t, m.StreamSynchronize(0, stream))
	}
}
