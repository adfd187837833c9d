// Package fakedevice is a device without memory for tests of allocators: it returns ascending addresses, keeps strict
// accounting, records every call, and fails on request.
package fakedevice

import (
	"errors"
	"fmt"
)

// Base is the address of the first region.
const Base = 0x7_0000_0000_0000

// The failures.
var (
	ErrFull     = errors.New("the device is full")
	ErrInjected = errors.New("injected failure")
)

// Call is one call to the device.
type Call struct {
	Op    string // "map" or "unmap"
	Bytes uint64
	Addr  uint64
	Err   error
}

// String returns a short form, with the address relative to Base: "map 4096@0x0", "map 4096 refused".
func (c Call) String() string {
	if c.Err != nil {
		return fmt.Sprintf("%s %d refused", c.Op, c.Bytes)
	}
	return fmt.Sprintf("%s %d@%#x", c.Op, c.Bytes, c.Addr-Base)
}

// Device is an upstream of suballoc.Regions. It is not safe for concurrent use; its users must lock.
type Device struct {
	CapacityBytes uint64
	GapBytes      uint64 // between regions
	// Fail is called with the number of the call, from 0, before the call has any effect. nil: no call fails.
	Fail func(int) error

	Calls     []Call
	LiveBytes uint64
	PeakBytes uint64
	Live      map[uint64]uint64

	called int
	next   uint64
}

// New returns a device whose regions are 2 MiB apart, so that no two are adjacent.
func New(capacityBytes uint64) *Device {
	return &Device{CapacityBytes: capacityBytes, GapBytes: 2 << 20, Live: map[uint64]uint64{}, next: Base}
}

func (d *Device) injected() error {
	d.called++
	if d.Fail == nil {
		return nil
	}
	return d.Fail(d.called - 1)
}

// MemAlloc returns memory above everything it has returned before.
func (d *Device) MemAlloc(bytes uint64) (uint64, error) {
	err := d.injected()
	if err == nil && bytes > d.CapacityBytes-d.LiveBytes {
		err = ErrFull
	}
	if err != nil {
		d.Calls = append(d.Calls, Call{Op: "map", Bytes: bytes, Err: err})
		return 0, err
	}
	addr := d.next
	d.next += bytes + d.GapBytes
	d.Live[addr] = bytes
	d.LiveBytes += bytes
	d.PeakBytes = max(d.PeakBytes, d.LiveBytes)
	d.Calls = append(d.Calls, Call{Op: "map", Bytes: bytes, Addr: addr})
	return addr, nil
}

// MemFree frees exactly what MemAlloc returned.
func (d *Device) MemFree(addr uint64) error {
	bytes, live := d.Live[addr]
	err := d.injected()
	if err == nil && !live {
		err = fmt.Errorf("no memory is live at %#x", addr)
	}
	d.Calls = append(d.Calls, Call{Op: "unmap", Bytes: bytes, Addr: addr, Err: err})
	if err != nil {
		return err
	}
	delete(d.Live, addr)
	d.LiveBytes -= bytes
	return nil
}

// TakeCalls returns the calls since the last TakeCalls, as text.
func (d *Device) TakeCalls() []string {
	texts := []string{}
	for _, c := range d.Calls {
		texts = append(texts, c.String())
	}
	d.Calls = nil
	return texts
}
