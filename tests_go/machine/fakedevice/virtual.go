package fakedevice

import (
	"fmt"
	"sync"
)

// VirtualDevice is an upstream of suballoc.Virtual: the same device with virtual memory management, as strict as a
// driver. Memory has contents, one number for each 256 bytes, so that tests can check whether they change. Its methods
// lock.
type VirtualDevice struct {
	mu sync.Mutex
	*Device
	GranuleBytes uint64
	FailOp       func(op string) error // called after Fail, with the kind of call; nil: never fails
	Unmapping    func(addr uint64)     // called before a mapping is removed; may be nil
	NoCalls      bool                  // Calls stays empty

	Ranges   map[uint64]uint64   // address -> bytes reserved
	Handles  map[uint64]*Memory  // created and not released
	Mappings map[uint64]*Mapping // by address
	contents map[uint64]uint64   // contents of MemAlloc's memory
	last     uint64              // handle
}

// Memory is created by one MemCreate. It lives while it has a handle or a mapping.
type Memory struct {
	Bytes    uint64
	Handle   uint64
	mapped   int
	released bool
	contents map[uint64]uint64 // by offset
}

// Mapping is a handle at an address.
type Mapping struct {
	Memory *Memory
	Access bool
}

// NewVirtual returns a device with granules of 2 MiB.
func NewVirtual(capacityBytes uint64) *VirtualDevice {
	return &VirtualDevice{
		Device: New(capacityBytes), GranuleBytes: 2 << 20,
		Ranges: map[uint64]uint64{}, Handles: map[uint64]*Memory{}, Mappings: map[uint64]*Mapping{},
		contents: map[uint64]uint64{},
	}
}

// call records a call and its result.
func (d *VirtualDevice) call(op string, addr, bytes uint64, do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.injected()
	if err == nil && d.FailOp != nil {
		err = d.FailOp(op)
	}
	if err == nil {
		err = do()
	}
	if !d.NoCalls {
		d.Calls = append(d.Calls, Call{Op: op, Bytes: bytes, Addr: addr, Err: err})
	}
	return err
}

// TakeOps returns the calls since the last TakeOps, as text, without new addresses.
func (d *VirtualDevice) TakeOps() []string {
	texts := []string{}
	for _, c := range d.Calls {
		if c.Addr == 0 && c.Err == nil {
			texts = append(texts, fmt.Sprintf("%s %d", c.Op, c.Bytes))
		} else {
			texts = append(texts, c.String())
		}
	}
	d.Calls = nil
	return texts
}

func (d *VirtualDevice) whole(bytes uint64) error {
	if bytes == 0 || bytes%d.GranuleBytes != 0 {
		return fmt.Errorf("%d bytes are no whole granules", bytes)
	}
	return nil
}

// MemAlloc returns memory above everything it has returned before.
func (d *VirtualDevice) MemAlloc(bytes uint64) (addr uint64, err error) {
	err = d.call("alloc", 0, bytes, func() error {
		if bytes > d.CapacityBytes-d.LiveBytes {
			return ErrFull
		}
		addr = d.next
		d.next += bytes + d.GapBytes
		d.Live[addr] = bytes
		d.LiveBytes += bytes
		d.PeakBytes = max(d.PeakBytes, d.LiveBytes)
		return nil
	})
	return addr, err
}

// MemFree frees exactly what MemAlloc returned.
func (d *VirtualDevice) MemFree(addr uint64) error {
	return d.call("free", 0, 0, func() error {
		bytes, live := d.Live[addr]
		if !live {
			return fmt.Errorf("no memory is live at %#x", addr)
		}
		delete(d.Live, addr)
		d.LiveBytes -= bytes
		return nil
	})
}

// MemGetAllocationGranularity returns GranuleBytes.
func (d *VirtualDevice) MemGetAllocationGranularity() (bytes uint64, err error) {
	err = d.call("granularity", 0, 0, func() error { return nil })
	return d.GranuleBytes, err
}

// MemAddressReserve reserves addresses, not memory.
func (d *VirtualDevice) MemAddressReserve(bytes, alignment uint64) (addr uint64, err error) {
	err = d.call("reserve", 0, bytes, func() error {
		if alignment&(alignment-1) != 0 {
			return fmt.Errorf("%d is no power of two", alignment)
		}
		addr = (d.next + d.GranuleBytes - 1) / d.GranuleBytes * d.GranuleBytes
		d.next = addr + bytes + d.GapBytes
		d.Ranges[addr] = bytes
		return d.whole(bytes)
	})
	return addr, err
}

// MemAddressFree frees a range in which nothing is mapped.
func (d *VirtualDevice) MemAddressFree(addr, bytes uint64) error {
	return d.call("unreserve", addr, bytes, func() error {
		if d.Ranges[addr] != bytes || bytes == 0 {
			return fmt.Errorf("%d bytes at %#x are not reserved", bytes, addr)
		}
		for at := range d.Mappings {
			if addr <= at && at < addr+bytes {
				return fmt.Errorf("memory is mapped at %#x", at)
			}
		}
		delete(d.Ranges, addr)
		return nil
	})
}

// MemCreate allocates physical memory.
func (d *VirtualDevice) MemCreate(bytes uint64) (handle uint64, err error) {
	err = d.call("create", 0, bytes, func() error {
		if err := d.whole(bytes); err != nil {
			return err
		}
		if bytes > d.CapacityBytes-d.LiveBytes {
			return ErrFull
		}
		d.last++
		handle = d.last
		d.Handles[handle] = &Memory{Bytes: bytes, Handle: handle, contents: map[uint64]uint64{}}
		d.LiveBytes += bytes
		d.PeakBytes = max(d.PeakBytes, d.LiveBytes)
		return nil
	})
	return handle, err
}

// MemRelease releases a handle.
func (d *VirtualDevice) MemRelease(handle uint64) error {
	return d.call("release", 0, 0, func() error {
		m := d.Handles[handle]
		if m == nil {
			return fmt.Errorf("%d is no handle", handle)
		}
		delete(d.Handles, handle)
		m.released = true
		d.end(m)
		return nil
	})
}

func (d *VirtualDevice) end(m *Memory) {
	if m.released && m.mapped == 0 {
		d.LiveBytes -= m.Bytes
	}
}

// MemMap maps a whole handle at an address of a range where nothing is mapped.
func (d *VirtualDevice) MemMap(addr, bytes, handle uint64) error {
	return d.call("map", addr, bytes, func() error {
		m := d.Handles[handle]
		if m == nil || m.Bytes != bytes || addr%d.GranuleBytes != 0 || !d.inRange(addr, bytes) {
			return fmt.Errorf("handle %d cannot be mapped at %#x with %d bytes", handle, addr, bytes)
		}
		for at, other := range d.Mappings {
			if at < addr+bytes && addr < at+other.Memory.Bytes {
				return fmt.Errorf("memory is mapped at %#x already", at)
			}
		}
		m.mapped++
		d.Mappings[addr] = &Mapping{Memory: m}
		return nil
	})
}

func (d *VirtualDevice) inRange(addr, bytes uint64) bool {
	for at, size := range d.Ranges {
		if at <= addr && addr+bytes <= at+size {
			return true
		}
	}
	return false
}

// MemUnmap removes whole mappings that are adjacent.
func (d *VirtualDevice) MemUnmap(addr, bytes uint64) error {
	return d.call("unmap", addr, bytes, func() error {
		found, err := d.mapped(addr, bytes)
		for _, at := range found {
			m := d.Mappings[at].Memory
			if d.Unmapping != nil {
				d.Unmapping(at)
			}
			delete(d.Mappings, at)
			m.mapped--
			d.end(m)
		}
		return err
	})
}

// mapped returns the mappings that cover a stretch exactly, or an error.
func (d *VirtualDevice) mapped(addr, bytes uint64) (found []uint64, err error) {
	end := addr
	for end < addr+bytes {
		m := d.Mappings[end]
		if m == nil {
			return nil, fmt.Errorf("no mapping begins at %#x", end)
		}
		found = append(found, end)
		end += m.Memory.Bytes
	}
	if end != addr+bytes || bytes == 0 {
		return nil, fmt.Errorf("%d bytes at %#x are no whole mappings", bytes, addr)
	}
	return found, nil
}

// MemSetAccess makes whole mappings accessible to the device.
func (d *VirtualDevice) MemSetAccess(addr, bytes uint64) error {
	return d.call("access", addr, bytes, func() error {
		found, err := d.mapped(addr, bytes)
		for _, at := range found {
			d.Mappings[at].Access = true
		}
		return err
	})
}

// Write fills memory with a number; the address and the size are multiples of 256.
func (d *VirtualDevice) Write(addr, bytes, value uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := addr; at < addr+bytes; at += 256 {
		contents, offset := d.at(at)
		contents[offset] = value
	}
}

// Holds reports whether memory still holds what Write filled it with.
func (d *VirtualDevice) Holds(addr, bytes, value uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := addr; at < addr+bytes; at += 256 {
		if contents, offset := d.at(at); contents[offset] != value {
			return false
		}
	}
	return true
}

// at returns the memory at an address, and panics if the device could not access it.
func (d *VirtualDevice) at(addr uint64) (contents map[uint64]uint64, offset uint64) {
	for start := addr / d.GranuleBytes * d.GranuleBytes; addr-start < 64*d.GranuleBytes; start -= d.GranuleBytes {
		m := d.Mappings[start]
		if m == nil {
			continue
		}
		if addr-start >= m.Memory.Bytes || !m.Access {
			break
		}
		return m.Memory.contents, addr - start
	}
	for start, bytes := range d.Live {
		if start <= addr && addr-start < bytes {
			return d.contents, addr
		}
	}
	panic(fmt.Sprintf("illegal access at %#x", addr))
}

// Clean reports whether all resources have been released.
func (d *VirtualDevice) Clean() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.Ranges)+len(d.Handles)+len(d.Mappings)+len(d.Live) > 0 || d.LiveBytes != 0 {
		return fmt.Errorf("left over: %d ranges, %d handles, %d mappings, %d allocations, %d bytes",
			len(d.Ranges), len(d.Handles), len(d.Mappings), len(d.Live), d.LiveBytes)
	}
	return nil
}
