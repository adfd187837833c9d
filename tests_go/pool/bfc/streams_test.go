package bfc_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// Each line of a program is a step with its expected effects. Addresses and sizes are in units of 256 bytes.
//
//	NAME = alloc N STREAM : ADDRESS : calls of the timeline      or "null CAUSE" instead of the address
//	free NAME : calls        freeon NAME STREAM : calls        record NAME STREAM : calls
//	run STREAM               the device passes everything in the stream that waits for nothing
//	new STREAM : calls       end STREAM : calls
//	trim : BYTES : calls     refuse, allow: what the timeline does from then on
func TestStreams(t *testing.T) {
	tests := map[string]struct {
		units   uint64
		growth  uint64 // granule in units: memory grows in place; 0: reserved all at once
		collect bool
		program string
	}{
		"one stream never asks the timeline, whichever it is": {units: 8, program: `
			new 1 :
			a = alloc 4 1 : 0 :
			b = alloc 4 1 : 4 :
			record a 1 :
			free a :
			freeon b 1 :
			a = alloc 8 1 : 0 :
			free a :`},
		"a stream has its own memory again at once": {units: 8, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			b = alloc 4 1 : 4 : mark follow
			free a :
			free b :
			a = alloc 4 0 : 0 :
			b = alloc 4 1 : 4 :`},
		"what was free before the second stream is the first one's": {units: 8, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			free a :
			b = alloc 4 1 : 0 : mark follow`},
		"another's memory comes with a wait": {units: 4, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			free a :
			b = alloc 2 1 : 0 : mark follow
			c = alloc 2 1 : 2 :`},
		"another's memory comes without a wait once its work is done": {units: 4, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			free a :
			b = alloc 1 1 : 0 : mark follow
			run 0
			c = alloc 3 1 : 1 :`},
		"new memory comes before a wait": {units: 8, growth: 4, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			free a :
			b = alloc 4 1 : 4 : mark
			c = alloc 4 1 : 0 : follow`},
		"memory of passed work comes before new memory": {units: 8, growth: 4, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			free a :
			b = alloc 4 1 : 4 : mark
			run 0
			c = alloc 4 1 : 0 :`},
		"a stream that waited once need not wait again for what was freed before": {units: 8, growth: 4, program: `
			new 1 :
			a = alloc 2 0 : 0 :
			b = alloc 2 0 : 2 :
			c = alloc 4 0 : 4 :
			free a :
			free c :
			d = alloc 2 1 : 0 : mark follow
			e = alloc 4 1 : 4 :
			free b :
			f = alloc 2 1 : 2 : mark follow`},
		"neighbors of two streams are joined only in need": {units: 8, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			b = alloc 4 1 : 4 : mark follow
			free a :
			free b :
			c = alloc 8 1 : 0 : mark follow`},
		"a recorded block waits for all its streams": {units: 8, program: `
			new 1 :
			new 2 :
			a = alloc 4 0 : 0 :
			b = alloc 4 0 : 4 :
			record a 1 :
			record a 1 :
			record a 2 :
			free a :
			c = alloc 4 0 : 0 : mark mark follow follow`},
		"a recorded block is its own stream's once the others have passed": {units: 8, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			b = alloc 4 0 : 4 :
			record a 1 :
			free a :
			c = alloc 4 0 : 0 : mark follow
			record c 1 :
			free c :
			trim : 0 : mark sync mark sync
			d = alloc 4 1 : 0 :`},
		"freeing on another stream records it": {units: 4, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			freeon a 1 :
			b = alloc 4 0 : 0 : mark follow`},
		"memory that comes late from another's use waits no shorter": {units: 8, program: `
			new 1 :
			new 2 :
			a = alloc 4 0 : 0 :
			b = alloc 2 0 : 4 :
			d = alloc 2 0 : 6 :
			record a 1 :
			free a :
			free b :
			e = alloc 2 2 : 4 : mark mark follow
			free d :
			f = alloc 8 0 : null limit reached :
			run 1
			f = alloc 3 0 : 0 :
			g = alloc 1 1 : 3 : mark follow`},
		"new memory before its own keeps the mark": {units: 8, growth: 2, program: `
			new 1 :
			a = alloc 2 0 : 0 :
			b = alloc 2 0 : 2 :
			c = alloc 2 0 : 4 :
			d = alloc 2 1 : 6 :
			free b :
			trim : 2 : mark sync
			free c :
			e = alloc 3 0 : 2 :
			f = alloc 1 1 : 5 : mark follow`},
		"its own and anybody's come before new memory": {units: 9, growth: 2, program: `
			new 1 :
			a = alloc 2 0 : 0 :
			b = alloc 2 1 : 2 :
			free a :
			free b :
			c = alloc 9 0 : null fragmented : mark
			run 1
			c = alloc 4 0 : 0 :`},
		"a wait that fails": {units: 4, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			free a :
			refuse
			b = alloc 4 1 : null pending streams : mark mark
			allow
			b = alloc 4 1 : 0 : mark follow`},
		"too little memory is no matter of waiting": {units: 4, program: `
			new 1 :
			a = alloc 3 0 : 0 :
			b = alloc 2 1 : null limit reached : mark
			c = alloc 5 1 : null too large :`},
		"a stream that ended leaves its memory to the others": {units: 8, program: `
			new 1 :
			a = alloc 4 1 : 0 :
			b = alloc 4 1 : 4 :
			free a :
			end 1 : mark
			free b :
			c = alloc 8 0 : 0 : follow`},
		"the only stream ends": {units: 4, program: `
			new 1 :
			a = alloc 4 1 : 0 :
			free a :
			end 1 : mark
			b = alloc 4 0 : 0 : follow`},
		"trim waits for the only stream": {units: 8, growth: 2, program: `
			a = alloc 4 0 : 0 :
			b = alloc 2 0 : 4 :
			free a :
			trim : 4 : mark sync
			a = alloc 7 0 : null limit reached :
			a = alloc 4 0 : 0 :`},
		"trim waits for all streams": {units: 8, growth: 2, program: `
			new 1 :
			a = alloc 4 0 : 0 :
			b = alloc 2 1 : 4 : 
			c = alloc 2 1 : 6 :
			free a :
			free c :
			trim : 6 : mark sync mark sync`},
		"trim that cannot wait releases nothing": {units: 8, growth: 2, program: `
			a = alloc 4 0 : 0 :
			free a :
			refuse
			trim : 0 : mark`},
		"scattered memory is released in the end, and reserved again in one piece": {units: 6, growth: 2, collect: true, program: `
			new 1 :
			a = alloc 2 0 : 0 :
			b = alloc 2 0 : 2 :
			c = alloc 2 1 : 4 :
			free a :
			free c :
			d = alloc 4 0 : 4 : mark mark sync sync`},
		"scattered memory is moved together, after a wait for those who used it": {units: 6, growth: 2, program: `
			new 1 :
			new 2 :
			a = alloc 2 0 : 0 :
			b = alloc 2 2 : 2 :
			c = alloc 2 1 : 4 :
			free a :
			free c :
			d = alloc 4 0 : 4 : mark mark sync sync`},
		"what the only stream used is moved after a wait": {units: 6, growth: 2, program: `
			a = alloc 2 0 : 0 :
			b = alloc 2 0 : 2 :
			c = alloc 2 0 : 4 :
			free a :
			free c :
			d = alloc 4 0 : 4 : mark sync
			free d :
			d = alloc 4 0 : 4 :`},
		"and so is what an empty pool has set aside": {units: 6, growth: 2, program: `
			a = alloc 2 0 : 0 :
			b = alloc 2 0 : 2 :
			c = alloc 2 0 : 4 :
			free a :
			free c :
			d = alloc 4 0 : 4 : mark sync
			free d :
			free b :
			e = alloc 4 0 : 0 : mark sync
			free e :
			e = alloc 4 0 : 0 :`},
		"what the only stream set aside is its own when there are two": {units: 6, growth: 2, program: `
			a = alloc 6 0 : 0 :
			free a :
			new 1 :
			b = alloc 6 1 : 0 : mark follow`},
		"nothing is moved that cannot be waited for": {units: 6, growth: 2, program: `
			new 1 :
			a = alloc 2 0 : 0 :
			b = alloc 2 0 : 2 :
			c = alloc 2 1 : 4 :
			free a :
			free c :
			refuse
			d = alloc 4 0 : null fragmented : mark mark mark
			allow
			d = alloc 4 0 : 4 : mark mark sync sync`},
		"no wait for a stream whose memory is not needed": {units: 8, growth: 2, program: `
			new 1 :
			new 2 :
			a = alloc 2 0 : 0 :
			b = alloc 2 2 : 2 :
			c = alloc 2 0 : 4 :
			d = alloc 2 1 : 6 :
			e = alloc 2 0 : null limit reached :
			free a :
			free c :
			free d :
			f = alloc 4 1 : 4 : mark follow`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var sub bfc.SubAllocator = suballoc.NewRegions(fakedevice.New(1<<40),
				suballoc.Options{LimitBytes: tt.units * 256})
			base := uint64(fakedevice.Base)
			device := fakedevice.NewVirtual(1 << 40)
			if tt.growth > 0 {
				device.GranuleBytes = tt.growth * 256
				v := must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: tt.units * 256}))(t)
				sub = v
				base, _, _ = v.Range()
			}
			w := newWorld(t, sub, bfc.Options{GarbageCollect: tt.collect})
			w.watch(device)
			p := streamProgram{world: w, base: base, blocks: map[string]bfc.Block{}}
			for _, line := range strings.Split(strings.TrimSpace(tt.program), "\n") {
				require.Equal(t, strings.Join(strings.Fields(line), " "),
					strings.TrimSpace(p.step(strings.TrimSpace(line))))
				w.check()
			}
			w.endWatch(device)
			require.NoError(t, w.a.Close())
		})
	}
}

type streamProgram struct {
	*world
	base   uint64
	blocks map[string]bfc.Block
}

// step executes a line and returns it as it should have been.
func (p *streamProgram) step(line string) string {
	words, _, _ := strings.Cut(line, ":")
	words = strings.Join(strings.Fields(words), " ")
	var name string
	var n uint64
	var s bfc.Stream
	result := ""
	switch {
	case scan(words, "%s = alloc %d %d", &name, &n, &s):
		b, err := p.allocate(s, n*256)
		result = fmt.Sprint((b.Addr-p.base)/256, " :")
		var oom *bfc.OutOfMemory
		if err != nil {
			require.ErrorAs(p.t, err, &oom)
			result = fmt.Sprint("null ", oom.Cause, " :")
		}
		p.blocks[name] = b
	case scan(words, "free %s", &name):
		p.free(p.find(name))
	case scan(words, "freeon %s %d", &name, &s):
		p.freeOn(p.find(name), s)
	case scan(words, "record %s %d", &name, &s):
		p.record(p.find(name), s)
	case scan(words, "run %d", &s):
		for p.advance(s) {
		}
		return words
	case scan(words, "new %d", &s):
		require.Equal(p.t, s, p.newStream())
	case scan(words, "end %d", &s):
		require.NoError(p.t, p.end(s))
	case words == "trim":
		bytes, err := p.a.Trim()
		require.Equal(p.t, p.refuse != nil, err != nil)
		result = fmt.Sprint(bytes/256, " :")
	case words == "refuse":
		p.refuse = func() error { return errRefused }
		return words
	case words == "allow":
		p.refuse = nil
		return words
	default:
		require.Fail(p.t, "no step", "%q", line)
	}
	return strings.Join(strings.Fields(words+" : "+result+" "+strings.Join(p.takeAsked(), " ")), " ")
}

func scan(words, format string, to ...any) bool {
	n, err := fmt.Sscanf(words, format, to...)
	return err == nil && n == len(to) && strings.Count(words, " ") == strings.Count(format, " ")
}

func (p *streamProgram) find(name string) int {
	for i, b := range p.live {
		if b.Addr == p.blocks[name].Addr {
			return i
		}
	}
	require.Fail(p.t, "no block", "%s", name)
	return -1
}

func TestStreamNumbers(t *testing.T) {
	w := newWorld(t, suballoc.NewRegions(fakedevice.New(1<<30), suballoc.Options{LimitBytes: mib}), bfc.Options{})
	one, two := w.newStream(), w.newStream()
	require.Equal(t, []bfc.Stream{1, 2}, []bfc.Stream{one, two})
	b := must.OK(w.allocate(one, 1000))(t)
	for what, err := range map[string]error{
		"the end of stream 0":           w.a.EndStream(0),
		"the end of no stream":          w.a.EndStream(3),
		"a record of no stream":         w.a.RecordStream(b.Addr, 3),
		"a record of no block":          w.a.RecordStream(b.Addr+256, 0),
		"a free on no stream":           w.a.FreeOn(b.Addr, 3),
		"a free of no block":            w.a.FreeOn(b.Addr+256, 0),
		"a free of no block on nothing": w.a.FreeOn(0, 9),
	} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), what)
	}
	must.Fail(t, status.InvalidArgument, must.Err(w.a.AllocateOn(3, 1)))
	require.NoError(t, w.a.RecordStream(0, one), "the zero block")
	require.NoError(t, w.a.FreeOn(0, one), "the zero block")
	require.Equal(t, uint64(1), w.a.Stats().LiveBlocks)

	require.NoError(t, w.end(one))
	require.Equal(t, status.InvalidArgument, status.CodeOf(w.a.EndStream(one)), "ended before")
	require.Equal(t, status.InvalidArgument, status.CodeOf(w.a.RecordStream(b.Addr, one)), "ended before")
	require.Equal(t, status.InvalidArgument, status.CodeOf(must.Err(w.a.AllocateOn(one, 1))), "ended before")
	w.advance(one)
	require.Equal(t, bfc.Stream(3), w.newStream(), "a block of stream 1 is live")
	w.free(0)
	require.NoError(t, w.end(two))
	require.Equal(t, one, w.newStream(), "the number is there again")
	require.Equal(t, bfc.Stream(4), w.newStream(), "the work of stream 2 is not done")
	w.advance(two)
	require.Equal(t, two, w.newStream())
	w.check()

	require.NoError(t, w.a.Close())
	_, err := w.a.NewStream(0)
	for what, err := range map[string]error{
		"new": err, "end": w.a.EndStream(two), "record": w.a.RecordStream(0, 0), "free": w.a.FreeOn(0, 0),
	} {
		require.Equal(t, status.FailedPrecondition, status.CodeOf(err), what)
	}
}

func TestOneStreamWithoutTimeline(t *testing.T) {
	a := newAllocator(t, suballoc.NewRegions(fakedevice.New(1<<30), suballoc.Options{LimitBytes: mib}), bfc.Options{})
	must.Fail(t, status.Unimplemented, must.Err(a.NewStream(0)))
	b := allocate(t, a, 1000)
	require.NoError(t, a.RecordStream(b.Addr, 0))
	require.NoError(t, a.FreeOn(b.Addr, 0))
	require.Equal(t, uint64(mib), must.OK(a.Trim())(t))
}

// Memory that a stream is already ordered after is used before new memory.
func TestOrderedMemoryComesBeforeNewMemory(t *testing.T) {
	device := fakedevice.NewVirtual(1 << 40)
	v := must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: 64 * mib}))(t)
	w := newWorld(t, v, bfc.Options{})
	one := w.newStream()
	for range 3 {
		must.OK(w.allocate(0, 2*mib))(t)
	}
	first, last := w.live[0].Addr, w.live[2].Addr
	w.free(2)
	w.free(0)
	device.FailOp = func(string) error { return fakedevice.ErrInjected }
	b := must.OK(w.allocate(one, 2*mib))(t)
	require.Equal(t, []string{"mark", "follow"}, w.takeAsked())
	require.Equal(t, first, b.Addr)
	device.FailOp = nil
	b = must.OK(w.allocate(one, 2*mib))(t)
	require.Equal(t, last, b.Addr)
	require.Empty(t, w.takeAsked())
	require.NoError(t, w.a.Close())
}

// allocateAndFree allocates blocks of a MiB and frees each at once, and returns the timeline's calls.
func (w *world) allocateAndFree(s bfc.Stream, times int) (asked []string) {
	w.takeAsked()
	for range times {
		b := must.OK(w.a.AllocateOn(s, mib))(w.t)
		require.NoError(w.t, w.a.Free(b.Addr))
	}
	return w.takeAsked()
}

// A stream that frees much is marked now and then, even if no other stream needs its memory.
func TestMarksAfterMuchWasFreed(t *testing.T) {
	w := newWorld(t, suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 4 << 30}), bfc.Options{})
	one := w.newStream()
	require.Empty(t, w.allocateAndFree(0, 1000), "one stream")
	b := must.OK(w.a.AllocateOn(one, mib))(t)
	require.Len(t, w.allocateAndFree(0, 640), 10)
	for range 64 {
		require.NoError(t, w.a.FreeOn(must.OK(w.a.Allocate(mib))(t).Addr, one))
	}
	require.Equal(t, []string{"mark", "mark"}, w.takeAsked(), "one for each stream that used it")
	w.refuse = func() error { return errRefused }
	require.Len(t, w.allocateAndFree(0, 640), 10, "a mark that fails is not tried at each free")
	require.NoError(t, w.a.Free(b.Addr))
	require.NoError(t, w.a.Check())
	require.NoError(t, w.a.Close())
}

// A stream on which as much as the limit was freed, with every request served at once, is marked no more. The next
// request that is not served at once gets new memory, or another stream's with a wait on the device, and from then on
// there are marks again.
func TestNoMarksWhileRequestsAreServedAtOnce(t *testing.T) {
	virtual := func(t *testing.T) bfc.SubAllocator {
		device := fakedevice.NewVirtual(1 << 40)
		device.GranuleBytes = mib
		return must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: 256 * mib}))(t)
	}
	fixed := func(*testing.T) bfc.SubAllocator {
		return suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 256 * mib})
	}
	for name, tt := range map[string]struct {
		sub    func(*testing.T) bfc.SubAllocator
		next   []string // calls of the other stream's request
		others bool     // it gets the first stream's memory
	}{
		"a pool that can grow":           {virtual, []string{"mark"}, false},
		"a pool that has all its memory": {fixed, []string{"mark", "follow"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.sub(t), bfc.Options{})
			one := w.newStream()
			must.OK(w.allocate(0, mib))(t)
			must.OK(w.allocate(one, mib))(t)
			require.Len(t, w.allocateAndFree(0, 1000), 256/64)
			require.Empty(t, w.allocateAndFree(0, 100_000))

			freed := must.OK(w.allocate(0, mib))(t)
			w.free(len(w.live) - 1)
			taken := must.OK(w.allocate(one, mib))(t)
			require.Equal(t, tt.next, w.takeAsked(), "the host does not wait")
			require.Equal(t, tt.others, freed.Addr == taken.Addr)
			if !tt.others {
				for w.advance(0) {
				}
				again := must.OK(w.allocate(one, mib))(t)
				require.Equal(t, freed.Addr, again.Addr, "its work has passed the mark")
				require.Empty(t, w.takeAsked())
			}
			must.OK(w.allocate(0, mib))(t)
			require.Len(t, w.allocateAndFree(0, 1000), 256/64)
			require.Empty(t, w.allocateAndFree(0, 1000))
			w.check()
			require.NoError(t, w.a.Close())
		})
	}
}

// instant is a timeline of streams whose work is always done, or never.
type instant struct {
	never bool
	marks [16]atomic.Uint64
}

func (i *instant) Mark(s bfc.Stream, mark uint64) error {
	i.marks[s].Store(mark)
	return nil
}

func (i *instant) Lasting(bfc.Stream) bool { return true }
func (i *instant) SyncAll() error          { return nil }

func (i *instant) Passed(s bfc.Stream) uint64 {
	if i.never {
		return 0
	}
	return i.marks[s].Load()
}

func (i *instant) Follow(bfc.Stream, bfc.Stream, uint64) error { return nil }
func (i *instant) Sync(bfc.Stream, uint64) error               { return nil }

// newShared returns an allocator on which streams 0 to n-1 have worked.
func newShared(t testing.TB, limit uint64, n int, timeline bfc.Timeline) *bfc.Allocator {
	regions := suballoc.NewRegions(fakedevice.New(limit), suballoc.Options{LimitBytes: limit})
	a := must.OK(bfc.New(regions, bfc.Options{Timeline: timeline}))(t)
	for s := range n {
		if s > 0 {
			must.OK(a.NewStream(0))(t)
		}
		require.NoError(t, a.Free(must.OK(a.AllocateOn(bfc.Stream(s), 1))(t).Addr))
	}
	return a
}

func TestOperationsOnStreamsAllocateNothing(t *testing.T) {
	for name, timeline := range map[string]*instant{"work is done": {}, "work is never done": {never: true}} {
		t.Run(name, func(t *testing.T) {
			a := newShared(t, 64*mib, 3, timeline)
			turn := func() {
				var blocks [30]bfc.Block
				for i := range blocks {
					blocks[i], _ = a.AllocateOn(bfc.Stream(i%3), uint64(1+i)<<15)
				}
				for i, b := range blocks {
					if i%2 == 0 {
						_ = a.RecordStream(b.Addr, bfc.Stream((i+1)%3))
					}
					if a.Free(b.Addr) != nil {
						panic("a live block is not there")
					}
				}
			}
			turn()
			require.Zero(t, testing.AllocsPerRun(100, turn))
			require.NoError(t, a.Check())
			require.NoError(t, a.Close())
		})
	}
}

// liar is a timeline that claims marks that were never queued.
type liar struct{ instant }

func (*liar) Passed(bfc.Stream) uint64 { return 1 << 60 }

func TestPassedIsNotBelievedBeyondMarks(t *testing.T) {
	timeline := &liar{}
	a := newShared(t, mib, 2, timeline)
	before := timeline.marks[0].Load()
	require.NoError(t, a.Free(must.OK(a.AllocateOn(0, mib))(t).Addr))
	must.OK(a.AllocateOn(1, mib))(t)
	require.Greater(t, timeline.marks[0].Load(), before, "memory was freed after all marks")
	require.NoError(t, a.Close())
}

func TestGoroutinesOnStreams(t *testing.T) {
	a := newShared(t, 8*mib, 4, &instant{})
	var wg sync.WaitGroup
	for s := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				b, err := a.AllocateOn(bfc.Stream(s), uint64(1+i%700)<<10)
				if err != nil {
					continue
				}
				if i%5 == 0 && a.RecordStream(b.Addr, bfc.Stream((s+1)%4)) != nil || a.Free(b.Addr) != nil {
					t.Error("a live block is not there")
				}
				if i%500 == 0 {
					if _, err := a.Trim(); err != nil || a.Check() != nil {
						t.Error("trim or check failed")
					}
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, a.Check())
	require.Zero(t, a.Stats().BytesInUse)
	require.NoError(t, a.Close())
}
