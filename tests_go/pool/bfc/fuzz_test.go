package bfc_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
)

// FuzzTrace plays a trace of bytes against the naive allocator. The first byte selects the options; then each operation
// takes a kind and, if it needs one, an argument.
func FuzzTrace(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0b0000, 0, 1, 0, 2, 0, 3, 4, 0, 4, 0, 0, 2})                      // allocate, free, fill the hole
	f.Add([]byte{0b0011, 1, 8, 1, 16, 1, 32, 4, 1, 4, 0, 4, 0, 1, 60})             // growth, TensorFlow's rule
	f.Add([]byte{0b0101, 2, 1, 2, 2, 2, 3, 4, 0, 4, 0, 4, 0, 3, 0})                // idle regions are released
	f.Add([]byte{0b1111, 1, 255, 2, 255, 3, 0, 4, 0, 1, 255, 3, 0, 5, 0, 6, 7, 1}) // a device that refuses
	f.Add([]byte{0b0000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 3, 4, 2, 4, 1, 4, 0, 0, 0})
	f.Fuzz(func(t *testing.T, trace []byte) {
		if len(trace) > 400 {
			return // the time is quadratic in the length
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

// FuzzStreams plays a program of bytes over four streams against the oracle.
func FuzzStreams(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{8, 0, 4, 4, 4, 1, 0, 4, 1, 0, 8, 3, 0, 4, 0, 1, 9}) // a hand-over
	f.Add([]byte{6, 1, 0, 2, 1, 2, 3, 0, 2, 5, 0, 1, 4, 1, 6, 1, 0, 6, 5})
	f.Add([]byte{255, 0, 1, 1, 1, 2, 1, 3, 4, 0, 5, 1, 4, 0, 7, 7, 0, 255, 8, 1, 0, 40})
	f.Add([]byte{23, 0, 9, 1, 9, 2, 9, 4, 0, 4, 0, 6, 0, 3, 30, 6, 0, 7, 0, 3, 30})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) <= 400 {
			playStreams(t, program)
		}
	})
}

func playStreams(t *testing.T, program []byte) {
	in := input{program}
	w := in.world(t)
	for len(in.rest) > 0 {
		in.streamStep(w)
		w.check()
	}
	w.refuse = nil
	w.atEnd()
	require.NoError(t, w.a.Close())
}

// The same with random bytes, always the same ones.
func TestManyRandomStreamPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		program := make([]byte, 400)
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		playStreams(t, program)
	}
}

func (in *input) world(t *testing.T) *world {
	bits := in.byte()
	limit := 4096 + 256*(bits>>5)
	opts := bfc.Options{GarbageCollect: bits&1 != 0, Split: bfc.SplitRule{TensorFlow: bits&2 != 0}}
	var sub bfc.SubAllocator = suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: limit})
	device := fakedevice.NewVirtual(1 << 40)
	if bits&4 != 0 {
		device.GranuleBytes = 512
		v, err := suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: limit})
		require.NoError(t, err)
		sub = v
	}
	w := newWorld(t, sub, opts)
	w.watch(device)
	w.atEnd = func() { w.endWatch(device) }
	for range 3 {
		w.newStream()
	}
	if bits&8 != 0 {
		calls := 0
		w.refuse = func() error {
			if calls++; calls%3 == 0 {
				return errRefused
			}
			return nil
		}
	}
	return w
}

func (in *input) streamStep(w *world) {
	what := in.byte()
	block := func() int { return int(in.byte()) % len(w.live) }
	if what%9 >= 4 && what%9 <= 6 && len(w.live) == 0 {
		return
	}
	switch what % 9 {
	case 0, 1, 2, 3:
		bytes := in.byte() << 7
		if _, err := w.allocate(bfc.Stream(what%4), bytes); err != nil {
			w.mustNotHaveHelped(bytes, err)
		}
	case 4:
		w.free(block())
	case 5:
		w.freeOn(block(), bfc.Stream(what/9%4))
	case 6:
		w.record(block(), bfc.Stream(what/9%4))
	case 7:
		w.advance(bfc.Stream(what / 9 % 4))
	case 8:
		_, _ = w.a.Trim()
	}
}

// input reads a trace; beyond its end it returns zeros.
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
		p.allocate(256*(in.byte()%8)+1, holder.ID(len(p.live)%3))
	case 1:
		p.allocate(1+in.byte()<<12, holder.ID(len(p.live)%3))
	case 2:
		p.allocate(1<<(in.byte()%64), holder.ID(len(p.live)%3))
	case 3:
		p.allocate(4<<20-in.byte(), holder.ID(len(p.live)%3))
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
