//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

const mib = 1 << 20

// session uses a driver and releases what it holds in reverse order.
type session struct {
	gpu.Driver
	undo []func() error
}

func (s *session) later(undo func() error) { s.undo = append(s.undo, undo) }

// end releases everything; an earlier error takes precedence.
func (s *session) end(err *error) {
	for i := len(s.undo) - 1; i >= 0; i-- {
		*err = errors.Join(*err, s.undo[i]())
	}
}

// useEverything opens a driver and makes every call that a correct program makes. It stops at the first failure.
func useEverything() error {
	return use((*session).useMemory, (*session).useManagedMemory, (*session).useVirtualMemory, (*session).useStreams,
		(*session).useCapture)
}

func use(parts ...func(*session) error) (err error) {
	defer attempt.Catch(&err)
	driver := attempt.Get(cuda.Open())
	s := &session{Driver: driver}
	s.later(driver.Close)
	defer s.end(&err)
	attempt.Do(s.ContextRetain(0))
	s.later(func() error { return s.ContextRelease(0) })
	for _, part := range parts {
		attempt.Do(part(s))
	}
	return nil
}

func (s *session) useMemory() (err error) {
	defer attempt.Catch(&err)
	if _, _, err := s.MemGetInfo(0); err != nil {
		return err
	}
	addr := attempt.Get(s.MemAlloc(0, mib))
	s.later(func() error { return s.MemFree(0, addr) })
	data := make([]byte, 16)
	attempt.Do(s.MemsetD8(0, addr, 7, mib))
	attempt.Do(s.MemcpyHtoD(0, addr, []byte("gpuconf")))
	attempt.Do(s.MemcpyDtoH(0, data, addr))
	return expect(data, "gpuconf\x07\x07\x07\x07\x07\x07\x07\x07\x07")
}

// useManagedMemory reads and writes beyond the card's memory.
func (s *session) useManagedMemory() (err error) {
	defer attempt.Catch(&err)
	_, total, err := s.MemGetInfo(0)
	if err != nil {
		return err
	}
	addr := attempt.Get(s.MemAllocManaged(0, total+mib))
	s.later(func() error { return s.MemFree(0, addr) })
	data := make([]byte, 7)
	attempt.Do(s.MemcpyHtoD(0, addr+total, []byte("managed")))
	attempt.Do(s.MemcpyDtoH(0, data, addr+total))
	return expect(data, "managed")
}

func expect(data []byte, want string) error {
	if !bytes.Equal(data, []byte(want)) {
		return fmt.Errorf("read %q, want %q", data, want)
	}
	return nil
}

func (s *session) useVirtualMemory() (err error) {
	defer attempt.Catch(&err)
	granule, _, err := s.MemGetAllocationGranularity(0)
	if err != nil {
		return err
	}
	addr := attempt.Get(s.MemAddressReserve(4*granule, 0))
	s.later(func() error { return s.MemAddressFree(addr, 4*granule) })
	for i := range uint64(2) {
		handle := attempt.Get(s.MemCreate(0, granule))
		s.later(func() error { return s.MemRelease(handle) })
		attempt.Do(s.MemMap(addr+i*granule, granule, handle))
		s.later(func() error { return s.MemUnmap(addr+i*granule, granule) })
	}
	attempt.Do(s.MemSetAccess(0, addr, 2*granule))
	return s.MemsetD8(0, addr+granule/2, 1, granule)
}

func (s *session) useStreams() (err error) {
	defer attempt.Catch(&err)
	stream := attempt.Get(s.StreamCreate(0, gpu.StreamNonBlocking, -1))
	s.later(func() error { return s.StreamDestroy(0, stream) })
	event := attempt.Get(s.EventCreate(0))
	s.later(func() error { return s.EventDestroy(0, event) })
	host := attempt.Get(s.MemHostAlloc(0, 4096))
	s.later(func() error { return s.MemFreeHost(0, host.Addr) })
	addr := attempt.Get(s.MemAlloc(0, 4096))
	s.later(func() error { return s.MemFree(0, addr) })
	s.later(func() error { return s.StreamSynchronize(0, stream) })

	for _, call := range []func() error{
		func() error { _, err := s.StreamGetID(0, stream); return err },
		func() error { _, err := s.StreamGetPriority(0, stream); return err },
		func() error { return s.MemsetD8Async(0, addr, 9, 64, stream) },
		func() error { return s.MemcpyDtoDAsync(0, addr+64, addr, 64, stream) },
		func() error { return s.StreamWriteValue64(0, stream, host.Addr+1024, 5) },
		func() error { return s.StreamWaitValue64(0, gpu.StreamPerThread, host.Addr+1024, 5) },
		func() error { return s.EventRecord(0, event, stream) },
		func() error { return s.StreamWaitEvent(0, gpu.StreamNull, event) },
		func() error { return s.MemcpyDtoHAsync(0, host.Addr+2048, addr+64, 64, stream) },
		func() error { return s.EventSynchronize(0, event) },
		func() error { return s.StreamSynchronize(0, stream) },
		func() error { return s.StreamSynchronize(0, gpu.StreamPerThread) },
		func() error { return s.ContextSynchronize(0) },
		func() error { return s.mustBeDone(stream, event) },
	} {
		attempt.Do(call())
	}
	return expect(host.Bytes[2048:2050], "\x09\x09")
}

// useCapture queries a stream that another library captures.
func (s *session) useCapture() (err error) {
	defer attempt.Catch(&err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stream := attempt.Get(s.StreamCreate(0, gpu.StreamNonBlocking, 0))
	defer func() { err = errors.Join(err, s.StreamDestroy(0, stream)) }()
	if capture, err := s.StreamGetCaptureInfo(0, stream); err != nil || capture != 0 {
		return errors.Join(err, expectEqual("no capture", capture, 0))
	}
	library := capturer{s.Driver}
	attempt.Do(library.BeginCapture(0, stream))
	end := func() error {
		graph, err := library.EndCapture(0, stream)
		if graph == 0 {
			return err
		}
		return errors.Join(err, library.DestroyGraph(0, graph))
	}
	capture, err := s.StreamGetCaptureInfo(0, stream)
	if err == nil && capture == 0 {
		err = errors.New("a capture is not seen")
	}
	if err != nil {
		return errors.Join(err, end())
	}
	life, err := s.StreamGetCaptureLife(0, stream)
	if err != nil {
		return errors.Join(err, end())
	}
	alive := life.Ended()
	return errors.Join(end(), expectEqual("ended", alive, false), expectEqual("ended", life.Ended(), true))
}

func expectEqual[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

func (s *session) mustBeDone(stream gpu.Stream, event gpu.Event) (err error) {
	defer attempt.Catch(&err)
	streamDone := attempt.Get(s.StreamQuery(0, stream))
	eventDone := attempt.Get(s.EventQuery(0, event))
	if !streamDone || !eventDone {
		return fmt.Errorf("stream done %t, event done %t, after waiting for both", streamDone, eventDone)
	}
	return nil
}
