package bfc_test

import (
	"testing"

	"gpuconf/gocore/bfc"
	"gpuconf/tests_go/fakedevice"
)

// FuzzTrace plays a trace of bytes against the naive allocator. The first byte is the setting, then each operation takes
// a kind and, where it needs one, an argument.
func FuzzTrace(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0b0000, 0, 1, 0, 2, 0, 3, 4, 0, 4, 0, 0, 2})                      // allocate, free, fill the hole
	f.Add([]byte{0b0011, 1, 8, 1, 16, 1, 32, 4, 1, 4, 0, 4, 0, 1, 60})             // growth, TensorFlow's rule
	f.Add([]byte{0b0101, 2, 1, 2, 2, 2, 3, 4, 0, 4, 0, 4, 0, 3, 0})                // idle regions go back
	f.Add([]byte{0b1111, 1, 255, 2, 255, 3, 0, 4, 0, 1, 255, 3, 0, 5, 0, 6, 7, 1}) // a device that refuses
	f.Add([]byte{0b0000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 3, 4, 2, 4, 1, 4, 0, 0, 0})
	f.Fuzz(func(t *testing.T, trace []byte) {
		if len(trace) > 400 {
			return // time goes with the square of the length
		}
		in := input{trace}
		p := newPair(t, in.setting())
		defer p.close()
		for len(in.rest) > 0 {
			in.step(p)
			p.compare()
		}
	})
}

// input reads a trace; beyond its end there are zeros.
type input struct{ rest []byte }

func (in *input) byte() uint64 {
	if len(in.rest) == 0 {
		return 0
	}
	b := in.rest[0]
	in.rest = in.rest[1:]
	return uint64(b)
}

func (in *input) setting() setting {
	bits := in.byte()
	s := setting{limit: 4<<20 + bits, growth: bits&1 != 0, capacity: 8 << 20, gap: (bits >> 7) << 21}
	s.opts = bfc.Options{Split: bfc.SplitRule{TensorFlow: bits&2 != 0}, GarbageCollect: bits&4 != 0}
	if bits&8 != 0 {
		s.fail = func(call int) error {
			if call%3 == 1 {
				return fakedevice.ErrInjected
			}
			return nil
		}
	}
	return s
}

func (in *input) step(p *pair) {
	switch in.byte() % 9 {
	case 0:
		p.allocate(256*(in.byte()%8) + 1)
	case 1:
		p.allocate(1 + in.byte()<<12)
	case 2:
		p.allocate(1 << (in.byte() % 64))
	case 3:
		p.allocate(4<<20 - in.byte())
	case 4:
		if at := int(in.byte()); len(p.live) > 0 {
			p.free(at%len(p.live), at >= 128)
		}
	case 5:
		p.freeAnything(fakedevice.Base + in.byte()<<7)
	case 6:
		p.startPeak()
	case 7:
		p.stopPeak()
	case 8:
		p.a.ClearStats()
		p.n.clearStats()
	}
}
