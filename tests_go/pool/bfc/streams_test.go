package bfc_test

import (
	"flag"
	"fmt"
	"os"
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

var rewrite = flag.Bool("rewrite", false, "write what the sessions in testdata do now; review the diff")

// runSessions runs the sessions of a file: "== NAME | OPTIONS" and the lines of each. step does what a line says, and
// returns the line as it should have been.
func runSessions(t *testing.T, path string, begin func(t *testing.T, options string) (step func(string) string)) {
	sessions := strings.Split(string(must.OK(os.ReadFile(path))(t)), "\n== ")
	for i, session := range sessions[1:] {
		lines := strings.Split(strings.TrimRight(session, "\n"), "\n")
		name, options, _ := strings.Cut(lines[0], " | ")
		t.Run(name, func(t *testing.T) {
			step := begin(t, options)
			for n, line := range lines[1:] {
				lines[n+1] = step(line)
				if !*rewrite {
					require.Equal(t, line, lines[n+1])
				}
			}
		})
		sessions[i+1] = strings.Join(lines, "\n") + "\n"
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(sessions, "\n== ")), 0o644))
	}
}

func TestStreams(t *testing.T) {
	runSessions(t, "testdata/streams.txt", func(t *testing.T, options string) func(string) string {
		var units, growth uint64
		var collect bool
		require.True(t, scan(options, "%d units, growth %d, collect %t", &units, &growth, &collect), options)
		var sub bfc.SubAllocator = suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: units * 256})
		base := uint64(fakedevice.Base)
		device := fakedevice.NewVirtual(1 << 40)
		if growth > 0 {
			device.GranuleBytes = growth * 256
			v := must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: units * 256}))(t)
			sub = v
			base, _, _ = v.Range()
		}
		w := newWorld(t, sub, bfc.Options{GarbageCollect: collect})
		w.watch(device)
		p := streamProgram{world: w, base: base, blocks: map[string]bfc.Block{}}
		t.Cleanup(func() {
			w.endWatch(device)
			require.NoError(t, w.a.Close())
		})
		return func(line string) string {
			got := p.step(line)
			w.check()
			return got
		}
	})
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
	must.Fail(t, status.InvalidArgument, must.Err(w.a.AllocateFor(3, 1, 0)))
	require.NoError(t, w.a.RecordStream(0, one), "the zero block")
	require.NoError(t, w.a.FreeOn(0, one), "the zero block")
	require.Equal(t, uint64(1), w.a.Stats().LiveBlocks)

	require.NoError(t, w.end(one))
	require.Equal(t, status.InvalidArgument, status.CodeOf(w.a.EndStream(one)), "ended before")
	require.Equal(t, status.InvalidArgument, status.CodeOf(w.a.RecordStream(b.Addr, one)), "ended before")
	require.Equal(t, status.InvalidArgument, status.CodeOf(must.Err(w.a.AllocateFor(one, 1, 0))), "ended before")
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
		b := must.OK(w.a.AllocateFor(s, mib, 0))(w.t)
		require.NoError(w.t, w.a.Free(b.Addr))
	}
	return w.takeAsked()
}

// A stream that frees much is marked now and then, even if no other stream needs its memory.
func TestMarksAfterMuchWasFreed(t *testing.T) {
	w := newWorld(t, suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 4 << 30}), bfc.Options{})
	one := w.newStream()
	require.Empty(t, w.allocateAndFree(0, 1000), "one stream")
	b := must.OK(w.a.AllocateFor(one, mib, 0))(t)
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
		require.NoError(t, a.Free(must.OK(a.AllocateFor(bfc.Stream(s), 1, 0))(t).Addr))
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
					blocks[i], _ = a.AllocateFor(bfc.Stream(i%3), uint64(1+i)<<15, 0)
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
	require.NoError(t, a.Free(must.OK(a.AllocateFor(0, mib, 0))(t).Addr))
	must.OK(a.AllocateFor(1, mib, 0))(t)
	require.Greater(t, timeline.marks[0].Load(), before, "memory was freed after all marks")
	require.NoError(t, a.Close())
}

func TestGoroutinesOnStreams(t *testing.T) {
	a := newShared(t, 8*mib, 4, &instant{})
	var wg sync.WaitGroup
	for s := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				b, err := a.AllocateFor(bfc.Stream(s), uint64(1+i%700)<<10, 0)
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
