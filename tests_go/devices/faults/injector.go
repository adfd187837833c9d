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

// pass makes a call, unless a fault fails it first.
func (i *Injector) pass(op string, ordinal int, bytes uint64, call func() error) error {
	if err := i.before(op, ordinal, bytes); err != nil {
		return err
	}
	return call()
}

// pass1 is pass for a call with a result.
func pass1[V any](i *Injector, op string, ordinal int, bytes uint64, call func() (V, error)) (value V, err error) {
	err = i.pass(op, ordinal, bytes, func() (err error) { value, err = call(); return err })
	return value, err
}

// pass2 is pass for a call with two results.
func pass2[V, W any](i *Injector, op string, ordinal int, bytes uint64, call func() (V, W, error)) (
	value V, other W, err error) {
	err = i.pass(op, ordinal, bytes, func() (err error) { value, other, err = call(); return err })
	return value, other, err
}

// take is pass for a call that allocates device memory, which Call.AllocatedBytes counts.
func take[V any](i *Injector, op string, ordinal int, bytes uint64, call func(int, uint64) (V, error)) (V, error) {
	return pass1(i, op, ordinal, bytes, func() (V, error) {
		taken, err := call(ordinal, bytes)
		if err == nil {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.allocatedBytes += bytes
		}
		return taken, err
	})
}
