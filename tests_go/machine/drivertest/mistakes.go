package drivertest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
)

// mistake is a call that must be refused, and the expected error.
type mistake struct {
	name string
	call func() error
	want gpu.Result
	path bool // forwarded or kept
}

// Package cuda forwards some calls to the driver, which refuses them. Others, which a real driver need not survive, it
// keeps from it.
const forwarded, kept = true, false

// workshop is a driver of three GPUs of 64 MiB with one object of each kind. GPUs 0 and 1 have a context, GPU 2 has
// none.
type workshop struct {
	gpu.Driver
	granule uint64

	// memory of GPU 0, memory of GPU 1, and managed memory of GPU 0: 1000 bytes each, filled with 7
	addr, others, managed uint64
	host                  gpu.HostMemory
	stream, goneStream    gpu.Stream
	event, goneEvent      gpu.Event
	// eight granules: the first is mapped, the fifth and sixth are one mapping without access, the last is GPU 1's
	base                     uint64
	closed, other            uint64 // the fifth and the last
	one, two, three, dropped gpu.Handle
}

// TestMistakes runs the table of mistakes whose result CUDA leaves undefined, or for which it does not specify which of
// several errors is reported. Simulated machines refuse them, and so does package cuda over tests_go/machine/fakecuda.
// A real driver need not; TestDriver checks what CUDA promises.
//
// state must return the same before and after each call. Its argument says whether package cuda forwards the call to
// the driver.
func TestMistakes(t *testing.T, open Open, state func(driver gpu.Driver, forwarded bool) any) {
	w := newWorkshop(t, open)
	for _, table := range [][]mistake{w.ofMemory(), w.ofManagedMemory(), w.ofStreams(), w.ofVirtualMemory()} {
		for _, row := range table {
			t.Run(row.name, func(t *testing.T) {
				before := state(w.Driver, row.path)
				require.ErrorIs(t, row.call(), row.want)
				require.Equal(t, before, state(w.Driver, row.path), "a refused call changed something")
				w.look(t)
			})
		}
	}
}

func newWorkshop(t *testing.T, open Open) *workshop {
	driver, err := open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, driver.Close()) })
	w := &workshop{Driver: driver}
	must := func(err error) { t.Helper(); require.NoError(t, err) }
	for ordinal := range 2 {
		must(w.ContextRetain(ordinal))
	}
	w.granule, _, err = w.MemGetAllocationGranularity(0)
	must(err)
	w.addr, err = w.MemAlloc(0, 1000)
	must(err)
	w.others, err = w.MemAlloc(1, 1000)
	must(err)
	w.managed, err = w.MemAllocManaged(0, 1000)
	must(err)
	must(w.MemsetD8(0, w.addr, 7, 1000))
	must(w.MemsetD8(1, w.others, 7, 1000))
	must(w.MemsetD8(0, w.managed, 7, 1000))
	w.host, err = w.MemHostAlloc(0, 4096)
	must(err)
	for _, stream := range []*gpu.Stream{&w.stream, &w.goneStream} {
		*stream, err = w.StreamCreate(0, gpu.StreamDefault, 0)
		must(err)
	}
	for _, event := range []*gpu.Event{&w.event, &w.goneEvent} {
		*event, err = w.EventCreate(0)
		must(err)
	}
	must(w.StreamDestroy(0, w.goneStream))
	must(w.EventDestroy(0, w.goneEvent))
	w.base, err = w.MemAddressReserve(8*w.granule, 0)
	must(err)
	w.closed, w.other = w.base+4*w.granule, w.base+7*w.granule
	for _, row := range []struct {
		handle        *gpu.Handle
		ordinal       int
		granules, dst uint64
	}{{&w.one, 0, 1, w.base}, {&w.two, 0, 2, w.closed}, {&w.three, 1, 1, w.other}, {&w.dropped, 0, 1, 0}} {
		*row.handle, err = w.MemCreate(row.ordinal, row.granules*w.granule)
		must(err)
		if row.dst != 0 {
			must(w.MemMap(row.dst, row.granules*w.granule, *row.handle))
		}
	}
	must(w.MemRelease(w.dropped))
	must(w.MemSetAccess(0, w.base, w.granule))
	must(w.MemsetD8(0, w.base, 7, w.granule))
	return w
}

// look checks that all memory is unchanged.
func (w *workshop) look(t *testing.T) {
	t.Helper()
	for _, place := range []struct {
		ordinal     int
		addr, bytes uint64
	}{{0, w.addr, 1000}, {1, w.others, 1000}, {0, w.managed, 1000}, {0, w.base, w.granule}} {
		got := make([]byte, place.bytes)
		require.NoError(t, w.MemcpyDtoH(place.ordinal, got, place.addr))
		for i := range got {
			if got[i] != 7 {
				require.Failf(t, "a refused call wrote", "byte %d of GPU %d's memory is %d", i, place.ordinal, got[i])
			}
		}
	}
}

func (w *workshop) ofMemory() []mistake {
	const noContext, noDevice = 2, 3
	return []mistake{
		{"no device comes before no context", func() error { _, err := w.MemAlloc(noDevice, 0); return err },
			gpu.ErrorInvalidDevice, kept},
		{"no context comes before bad size", func() error { _, err := w.MemAlloc(noContext, 0); return err },
			gpu.ErrorInvalidContext, kept},
		{"no context comes before out of memory", func() error { _, err := w.MemAlloc(noContext, 1<<60); return err },
			gpu.ErrorInvalidContext, kept},
		{"an empty copy needs a context", func() error { return w.MemcpyHtoD(noContext, w.addr, nil) },
			gpu.ErrorInvalidContext, kept},
		{"an empty fill needs a device", func() error { return w.MemsetD8(noDevice, w.addr, 0, 0) },
			gpu.ErrorInvalidDevice, kept},
		{"release of what was never retained", func() error { return w.ContextRelease(noContext) },
			gpu.ErrorInvalidContext, kept},
		{"a negative device", func() error { return w.ContextRetain(math.MinInt) }, gpu.ErrorInvalidDevice, kept},
		{"free on another device", func() error { return w.MemFree(1, w.addr) }, gpu.ErrorInvalidValue, kept},
		{"copy to another device's memory", func() error { return w.MemcpyHtoD(1, w.addr, []byte{1}) },
			gpu.ErrorInvalidValue, kept},
		{"copy from another device's memory", func() error { return w.MemcpyDtoH(0, make([]byte, 1), w.others) },
			gpu.ErrorInvalidValue, kept},
		{"fill of another device's memory", func() error { return w.MemsetD8(0, w.others, 1, 1) },
			gpu.ErrorInvalidValue, kept},
		{"the rounding behind an allocation is not its own", func() error { return w.MemsetD8(0, w.addr+1000, 1, 1) },
			gpu.ErrorInvalidValue, kept},
		{"a fill over the end by one", func() error { return w.MemsetD8(0, w.addr+999, 1, 2) }, gpu.ErrorInvalidValue,
			kept},
		{"a length that wraps around", func() error { return w.MemsetD8(0, w.addr+8, 1, math.MaxUint64-4) },
			gpu.ErrorInvalidValue, kept},
		{"more than there is", func() error { _, err := w.MemAlloc(0, 64<<20); return err }, gpu.ErrorOutOfMemory,
			forwarded},
		{"a size that wraps around", func() error { _, err := w.MemAlloc(0, math.MaxUint64-3); return err },
			gpu.ErrorOutOfMemory, kept},
		{"host memory of another GPU", func() error { return w.MemFreeHost(1, w.host.Addr) }, gpu.ErrorInvalidValue,
			kept},
		{"the middle of host memory", func() error { return w.MemFreeHost(0, w.host.Addr+8) }, gpu.ErrorInvalidValue,
			kept},
		{"no host memory", func() error { _, err := w.MemHostAlloc(0, 0); return err }, gpu.ErrorInvalidValue, kept},
		{"too much host memory", func() error { _, err := w.MemHostAlloc(0, math.MaxUint64); return err },
			gpu.ErrorOutOfMemory, kept},
	}
}

func (w *workshop) ofManagedMemory() []mistake {
	addr, invalid := w.managed, gpu.ErrorInvalidValue
	return []mistake{
		{"managed: a free on another device", func() error { return w.MemFree(1, addr) }, invalid, kept},
		{"managed: another device's fill", func() error { return w.MemsetD8(1, addr, 1, 1) }, invalid, kept},
		{"managed: a free as a reservation", func() error { return w.MemAddressFree(addr, 1000) }, invalid, kept},
		{"managed: a mapping over it", func() error { return w.MemMap(addr, w.granule, w.one) }, invalid, forwarded},
		{"managed: an unmapping", func() error { return w.MemUnmap(addr, w.granule) }, invalid, kept},
		{"managed: a free as page-locked memory", func() error { return w.MemFreeHost(0, addr) }, invalid, kept},
		{"managed: a fill beyond the end", func() error { return w.MemsetD8(0, addr, 1, 1001) }, invalid, kept},
		{"managed: a fill that goes around", func() error { return w.MemsetD8(0, addr+1, 1, math.MaxUint64) },
			invalid, kept},
		{"managed: a copy on to its rounding", func() error { return w.MemcpyHtoD(0, addr+999, []byte{1, 2}) },
			invalid, kept},
	}
}

func (w *workshop) ofStreams() []mistake {
	invalid, handle := gpu.ErrorInvalidValue, gpu.ErrorInvalidHandle
	return []mistake{
		{"unknown flags", func() error { _, err := w.StreamCreate(0, 2, 0); return err }, invalid, forwarded},
		{"a destroyed stream", func() error { return w.MemsetD8Async(0, w.addr, 1, 1, w.goneStream) },
			handle, forwarded},
		{"a second destroy", func() error { return w.StreamDestroy(0, w.goneStream) }, handle, kept},
		{"a stream that never was", func() error { return w.StreamDestroy(0, 99999) }, handle, kept},
		{"the end of the null stream", func() error { return w.StreamDestroy(0, gpu.StreamNull) }, handle, kept},
		{"the end of the per-thread stream", func() error { return w.StreamDestroy(0, gpu.StreamPerThread) },
			handle, kept},
		{"another GPU's stream", func() error { return w.StreamDestroy(1, w.stream) }, handle, kept},
		{"a destroyed event", func() error { return w.EventSynchronize(0, w.goneEvent) }, handle, forwarded},
		{"an event that never was", func() error { return w.EventDestroy(0, 7) }, handle, kept},
		{"another GPU's event", func() error { return w.EventDestroy(1, w.event) }, handle, kept},
		{"a record of another GPU's event", func() error { return w.EventRecord(1, w.event, gpu.StreamNull) },
			handle, forwarded},
		{"a word at an odd place", func() error { return w.StreamWriteValue64(0, w.stream, w.host.Addr+4, 1) },
			invalid, kept},
		{"a word nowhere", func() error { return w.StreamWaitValue64(0, w.stream, 4096, 1) }, invalid, kept},
		{"a word behind the end", func() error { return w.StreamWriteValue64(0, w.stream, w.addr+1000, 1) },
			invalid, kept},
		{"another GPU's word", func() error { return w.StreamWaitValue64(0, w.stream, w.others, 1) }, invalid, kept},
		{"an asynchronous copy over the end", func() error {
			return w.MemcpyDtoHAsync(0, w.host.Addr, w.addr+992, 16, w.stream)
		}, invalid, kept},
		{"an asynchronous copy to nowhere", func() error { return w.MemcpyDtoHAsync(0, 4096, w.addr, 16, w.stream) },
			invalid, kept},
		{"an asynchronous copy between GPUs",
			func() error { return w.MemcpyDtoDAsync(0, w.addr, w.others, 16, w.stream) }, invalid, kept},
		{"an asynchronous fill of nothing", func() error { return w.MemsetD8Async(0, 4096, 1, 16, w.stream) },
			invalid, kept},
		{"a copy to where no host memory is", func() error {
			return w.MemcpyDtoHAsync(0, w.host.Addr+4090, w.addr, 7, w.stream)
		}, invalid, kept},
		{"a copy to device memory as host memory",
			func() error { return w.MemcpyDtoHAsync(0, w.addr+64, w.addr, 8, w.stream) }, invalid, kept},
	}
}

func (w *workshop) ofVirtualMemory() []mistake {
	invalid, none, g := gpu.ErrorInvalidValue, gpu.ErrorOutOfMemory, w.granule
	return []mistake{
		{"a handle that never was", func() error { return w.MemRelease(1000) }, invalid, kept},
		{"handle 0", func() error { return w.MemRelease(0) }, invalid, kept},
		{"a second release", func() error { return w.MemRelease(w.dropped) }, invalid, kept},
		{"a map of a released handle", func() error { return w.MemMap(w.base+g, g, w.dropped) }, invalid, kept},
		{"the end of a reservation with mappings", func() error { return w.MemAddressFree(w.base, 8*g) },
			invalid, forwarded},
		{"the end of a part of a reservation", func() error { return w.MemAddressFree(w.base+g, g) }, invalid, kept},
		{"the end of the beginning of a reservation", func() error { return w.MemAddressFree(w.base, g) },
			invalid, kept},
		{"a map of a handle that never was", func() error { return w.MemMap(w.base+g, g, 1000) }, invalid, kept},
		{"an unmap of nothing", func() error { return w.MemUnmap(w.base+2*g, g) }, invalid, kept},
		{"an unmap of no bytes", func() error { return w.MemUnmap(w.base, 0) }, invalid, kept},
		{"an unmap of a mapping and more", func() error { return w.MemUnmap(w.base, 2*g) }, invalid, kept},
		{"access to what is not mapped", func() error { return w.MemSetAccess(0, w.base, 2*g) }, invalid, kept},
		{"a fill without access", func() error { return w.MemsetD8(0, w.closed, 1, 1) }, invalid, kept},
		{"a copy from where there is no access", func() error { return w.MemcpyDtoH(0, make([]byte, 1), w.closed) },
			invalid, kept},
		{"a fill over the end of access", func() error { return w.MemsetD8(0, w.base, 1, g+1) }, invalid, kept},
		{"access to a part of a mapping", func() error { return w.MemSetAccess(0, w.closed, g) }, invalid, kept},
		{"access to another GPU's memory", func() error { return w.MemSetAccess(0, w.other, g) },
			gpu.ErrorInvalidDevice, forwarded},
		{"access of another GPU", func() error { return w.MemSetAccess(1, w.base, g) }, gpu.ErrorInvalidDevice,
			forwarded},
		{"another GPU's fill", func() error { return w.MemsetD8(1, w.base, 1, 1) }, invalid, kept},
		{"a free of a mapping", func() error { return w.MemFree(0, w.base) }, invalid, kept},
		{"an unmap of a part of a granule", func() error { return w.MemUnmap(w.base, g/2) }, invalid, kept},
		{"an unmap that wraps around", func() error { return w.MemUnmap(w.base, math.MaxUint64-g+1) }, invalid, kept},
		{"a reservation of half a page", func() error { _, err := w.MemAddressReserve(2048, 0); return err },
			invalid, forwarded},
		{"more addresses than there are", func() error { _, err := w.MemAddressReserve(1<<62, 0); return err },
			none, forwarded},
		{"an alignment that nothing has", func() error { _, err := w.MemAddressReserve(g, 1<<63); return err },
			none, forwarded},
		{"more than is free", func() error { _, err := w.MemCreate(0, 62*mib); return err }, none, forwarded},
		{"a size that wraps around the granules",
			func() error { _, err := w.MemCreate(0, math.MaxUint64-g+1); return err }, none, forwarded},
	}
}
