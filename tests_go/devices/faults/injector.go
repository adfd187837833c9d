package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"gpuconf/gocore/machine/gpu"
)

// Call is a driver call that is about to be made, as a Fault sees it.
type Call struct {
	Op      string // the method's name, such as "MemAlloc"
	Index   int    // how many calls preceded it
	OpIndex int    // how many calls of the same Op preceded it
	Ordinal int    // the device; -1 for calls that name none
	Bytes   uint64 // bytes allocated, reserved, mapped, copied or filled, else 0

	// AllocatedBytes is the sum of all earlier successful allocations of device memory, including managed memory and
	// freed memory.
	AllocatedBytes uint64
}

// Fault decides whether a call fails; nil lets it through. It runs under the Injector's lock, so it needs no lock
// itself, and must not call the Injector.
type Fault func(Call) error

// OnIndex fails call number n, counted from 0 over all calls. Increase n from 0 until a run succeeds, and each of its
// calls has failed once.
func OnIndex(n int, result gpu.Result) Fault {
	return func(c Call) error { return failIf(c.Index == n, result) }
}

// OnOp fails call number n of one method, counted from 0.
func OnOp(op string, n int, result gpu.Result) Fault {
	return func(c Call) error { return failIf(c.Op == op && c.OpIndex == n, result) }
}

// Seeded fails each call with probability rate. The same calls fail for the same seed.
func Seeded(rate float64, seed uint64, result gpu.Result) Fault {
	random := rand.New(rand.NewPCG(seed, 0))
	return func(Call) error { return failIf(random.Float64() < rate, result) }
}

// AfterBytes fails every MemAlloc, MemAllocManaged and MemCreate that would bring the sum of all allocations above
// limit.
func AfterBytes(limit uint64, result gpu.Result) Fault {
	return func(c Call) error {
		takes := c.Op == "MemAlloc" || c.Op == "MemAllocManaged" || c.Op == "MemCreate"
		return failIf(takes && (c.Bytes > limit || c.AllocatedBytes > limit-c.Bytes), result)
	}
}

func failIf(fail bool, result gpu.Result) error {
	if fail {
		return result
	}
	return nil
}

// Injector is a driver that passes each call to another one, unless a fault fails it first. A failed call does not
// reach the other driver. HostVisible and Close, which cannot fail, are passed on uncounted.
type Injector struct {
	upstream gpu.Driver

	mu             sync.Mutex
	faults         []Fault        // guarded by mu
	calls          int            // guarded by mu
	callsOf        map[string]int // guarded by mu
	allocatedBytes uint64         // guarded by mu
}

var _ gpu.Driver = (*Injector)(nil)

// NewInjector wraps upstream. The first of several faults that returns an error decides.
func NewInjector(upstream gpu.Driver, faults ...Fault) *Injector {
	return &Injector{upstream: upstream, faults: faults, callsOf: map[string]int{}}
}

// SetFaults replaces the faults from the next call on; the counts continue.
func (i *Injector) SetFaults(faults ...Fault) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults = faults
}

// Calls counts the calls so far, including failed ones.
func (i *Injector) Calls() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls
}

// CallsOf returns the counts of the calls so far, by method.
func (i *Injector) CallsOf() map[string]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.callsOf)
}

// before counts a call and calls the faults.
func (i *Injector) before(op string, ordinal int, bytes uint64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	call := Call{
		Op: op, Index: i.calls, OpIndex: i.callsOf[op], Ordinal: ordinal, Bytes: bytes,
		AllocatedBytes: i.allocatedBytes,
	}
	i.calls++
	i.callsOf[op]++
	for _, fault := range i.faults {
		if err := fault(call); err != nil {
			return fmt.Errorf("injected into %s, call %d: %w", op, call.Index, err)
		}
	}
	return nil
}

// Devices passes the call on.
func (i *Injector) Devices() ([]gpu.Device, error) {
	if err := i.before("Devices", -1, 0); err != nil {
		return nil, err
	}
	return i.upstream.Devices()
}

// ContextRetain passes the call on.
func (i *Injector) ContextRetain(ordinal int) error {
	if err := i.before("ContextRetain", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.ContextRetain(ordinal)
}

// ContextRelease passes the call on.
func (i *Injector) ContextRelease(ordinal int) error {
	if err := i.before("ContextRelease", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.ContextRelease(ordinal)
}

// MemGetInfo passes the call on.
func (i *Injector) MemGetInfo(ordinal int) (freeBytes, totalBytes uint64, err error) {
	if err := i.before("MemGetInfo", ordinal, 0); err != nil {
		return 0, 0, err
	}
	return i.upstream.MemGetInfo(ordinal)
}

// MemAlloc passes the call on.
func (i *Injector) MemAlloc(ordinal int, bytes uint64) (addr uint64, err error) {
	if err := i.before("MemAlloc", ordinal, bytes); err != nil {
		return 0, err
	}
	addr, err = i.upstream.MemAlloc(ordinal, bytes)
	if err == nil {
		i.allocated(bytes)
	}
	return addr, err
}

// MemAllocManaged passes the call on.
func (i *Injector) MemAllocManaged(ordinal int, bytes uint64) (addr uint64, err error) {
	if err := i.before("MemAllocManaged", ordinal, bytes); err != nil {
		return 0, err
	}
	addr, err = i.upstream.MemAllocManaged(ordinal, bytes)
	if err == nil {
		i.allocated(bytes)
	}
	return addr, err
}

// allocated adds to Call.AllocatedBytes.
func (i *Injector) allocated(bytes uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.allocatedBytes += bytes
}

// MemFree passes the call on.
func (i *Injector) MemFree(ordinal int, addr uint64) error {
	if err := i.before("MemFree", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.MemFree(ordinal, addr)
}

// MemcpyHtoD passes the call on.
func (i *Injector) MemcpyHtoD(ordinal int, dst uint64, src []byte) error {
	if err := i.before("MemcpyHtoD", ordinal, uint64(len(src))); err != nil {
		return err
	}
	return i.upstream.MemcpyHtoD(ordinal, dst, src)
}

// MemcpyDtoH passes the call on.
func (i *Injector) MemcpyDtoH(ordinal int, dst []byte, src uint64) error {
	if err := i.before("MemcpyDtoH", ordinal, uint64(len(dst))); err != nil {
		return err
	}
	return i.upstream.MemcpyDtoH(ordinal, dst, src)
}

// MemcpyDtoD passes the call on.
func (i *Injector) MemcpyDtoD(ordinal int, dst, src, bytes uint64) error {
	if err := i.before("MemcpyDtoD", ordinal, bytes); err != nil {
		return err
	}
	return i.upstream.MemcpyDtoD(ordinal, dst, src, bytes)
}

// MemsetD8 passes the call on.
func (i *Injector) MemsetD8(ordinal int, dst uint64, value byte, bytes uint64) error {
	if err := i.before("MemsetD8", ordinal, bytes); err != nil {
		return err
	}
	return i.upstream.MemsetD8(ordinal, dst, value, bytes)
}

// HostVisible passes the call on.
func (i *Injector) HostVisible() bool { return i.upstream.HostVisible() }

// Close passes the call on.
func (i *Injector) Close() error { return i.upstream.Close() }
