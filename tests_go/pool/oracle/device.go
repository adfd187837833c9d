package main

import "errors"

const (
	base = 0x700000000000
	mib2 = 2 << 20
)

// device returns address ranges until its capacity is reached.
type device struct {
	capacity uint64
	layout   uint64
	taken    uint64
	next     uint64
	count    uint64 // of ranges returned
	regions  map[uint64]uint64
	calls    uint64 // a hash of all calls and results
}

var errFull = errors.New("the device is full")

// MemAlloc returns a range, or fails.
func (d *device) MemAlloc(bytes uint64) (uint64, error) {
	if bytes > d.capacity-d.taken {
		d.note(bytes, 1)
		return 0, errFull
	}
	addr := d.place(bytes)
	d.count++
	d.taken += bytes
	d.regions[addr] = bytes
	d.note(bytes, addr)
	return addr, nil
}

// MemFree frees a range.
func (d *device) MemFree(addr uint64) error {
	d.taken -= d.regions[addr]
	delete(d.regions, addr)
	d.note(0, addr)
	return nil
}

// place picks a new range: ascending with 2 MiB between (layout 0) or without (1), else anywhere.
func (d *device) place(bytes uint64) uint64 {
	switch d.layout {
	case 0:
		addr := d.next
		d.next = (addr + bytes + 2*mib2 - 1) / mib2 * mib2
		return addr
	case 1:
		addr := d.next
		d.next = addr + bytes
		return addr
	}
	const slots = 1 << 20
	for slot := mix(d.layout, d.count); ; slot++ {
		addr := (slot%slots + 1) << 36
		if _, used := d.regions[addr]; !used {
			return addr
		}
	}
}

func (d *device) note(a, b uint64) { d.calls = mix(mix(d.calls, a), b) }

// mix is the step of SplitMix64, over two numbers.
func mix(a, b uint64) uint64 {
	z := (a ^ b*0xff51afd7ed558ccd) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
