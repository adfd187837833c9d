package caching_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/plan/caching"
	"gpuconf/tests_go/must"
)

const mib = uint64(1) << 20

// machine is a device with a given memory. Segments lie one behind the other, the first at 1 TiB.
type machine struct {
	memory, next uint64
	taken        []uint64 // sizes
	released     []uint64
}

func newMachine(memory uint64) *machine { return &machine{memory: memory, next: 1 << 40} }

func (m *machine) MemAlloc(bytes uint64) (uint64, bool) {
	if bytes > m.memory {
		return 0, false
	}
	m.memory -= bytes
	m.taken = append(m.taken, bytes)
	m.next += bytes
	return m.next - bytes, true
}

func (m *machine) MemFree(_, bytes uint64) {
	m.memory += bytes
	m.released = append(m.released, bytes)
}

func (m *machine) MemReserve(uint64, bool) (addr, bytes uint64) {
	m.next += 1 << 36
	return m.next - 1<<36, 1 << 36
}

func (m *machine) MemMap(_, bytes uint64) bool {
	_, ok := m.MemAlloc(bytes)
	return ok
}

func (m *machine) MemUnmap(addr, bytes uint64) { m.MemFree(addr, bytes) }

func allocate(t *testing.T, a *caching.Allocator, bytes uint64) *caching.Block {
	b := must.OK(a.Allocate(caching.Request{Bytes: bytes}))(t)
	require.NoError(t, a.Check())
	return b
}

func TestRound(t *testing.T) {
	four := caching.Settings{RoundupDivisions: caching.RoundupAll(4)}
	for _, row := range []struct{ bytes, plain, divided uint64 }{
		{1, 512, 512},
		{512, 512, 512},
		{513, 1024, 1024},
		{2048, 2048, 2048}, // not more than 512 bytes for each division
		{2049, 2560, 2560},
		{5 << 20, 5 << 20, 5 << 20},
		{5<<20 + 1, 5<<20 + 512, 6 << 20}, // between 4 and 8 MiB, the steps are 5, 6 and 7
		{9 << 20, 9 << 20, 10 << 20},
		{16 << 20, 16 << 20, 16 << 20},
		{33 << 20, 33 << 20, 40 << 20},
	} {
		require.Equal(t, row.plain, (&caching.Settings{}).Round(row.bytes), row.bytes)
		require.Equal(t, row.divided, four.Round(row.bytes), row.bytes)
	}
	var large caching.Settings
	large.RoundupDivisions[3] = 2 // from 8 to 16 MiB
	require.Equal(t, 12*mib, large.Round(9*mib))
	require.Equal(t, 5*mib+512, large.Round(5*mib+1))
}

// A request takes a segment of 2 MiB, of 20 MiB or of its own size, rounded up to 2 MiB.
func TestSegments(t *testing.T) {
	m := newMachine(1 << 40)
	a := caching.New(m, caching.Options{})
	for _, bytes := range []uint64{1, mib, mib + 1, 9 * mib, 10 * mib, 10*mib + 1, 33*mib + 5} {
		allocate(t, a, bytes)
	}
	require.Equal(t, []uint64{2 * mib, 20 * mib, 10 * mib, 12 * mib, 34 * mib}, m.taken, "the first two share one")
	require.Equal(t, 78*mib, a.Reserved())
}

// The smallest block that is large enough serves a request. A large block is split if more than 1 MiB is left.
func TestBestFit(t *testing.T) {
	a := caching.New(newMachine(1<<40), caching.Options{})
	large, small := allocate(t, a, 40*mib), allocate(t, a, 24*mib)
	largeAddr, smallAddr := large.Addr, small.Addr
	a.Free(large)
	a.Free(small)
	first := allocate(t, a, 23*mib)
	require.Equal(t, smallAddr, first.Addr)
	require.Equal(t, 24*mib, first.Bytes, "1 MiB is not split off")
	second := allocate(t, a, 20*mib)
	require.Equal(t, largeAddr, second.Addr)
	require.Equal(t, 20*mib, second.Bytes)
	require.Equal(t, largeAddr+20*mib, allocate(t, a, 5*mib).Addr, "what is left serves the next")
}

func TestStreamsAndPoolsAreKeptApart(t *testing.T) {
	a := caching.New(newMachine(1<<40), caching.Options{})
	b := allocate(t, a, 4*mib)
	addr := b.Addr
	a.Free(b)
	for _, other := range []caching.Request{{Bytes: 4 * mib, Stream: 7}, {Bytes: 4 * mib, Pool: caching.PoolID{0, 1}}} {
		require.NotEqual(t, addr, must.OK(a.Allocate(other))(t).Addr)
	}
	require.Equal(t, addr, allocate(t, a, 4*mib).Addr)
}

// Cached segments are released only when the device, or the limit, has no room for another.
func TestReleaseOnFailure(t *testing.T) {
	m := newMachine(100 * mib)
	a := caching.New(m, caching.Options{})
	kept := allocate(t, a, 12*mib)
	a.Free(allocate(t, a, 60*mib))
	allocate(t, a, 80*mib)
	require.Equal(t, []uint64{60 * mib}, m.released)
	require.ErrorIs(t, must.Err(a.Allocate(caching.Request{Bytes: 20 * mib})), caching.ErrOutOfMemory)
	require.NoError(t, a.Check())
	a.Free(kept)
	a.ReleaseCached()
	require.Equal(t, 80*mib, a.Reserved())
}

func TestLimit(t *testing.T) {
	a := caching.New(newMachine(1<<40), caching.Options{LimitBytes: 30 * mib})
	allocate(t, a, 3*mib)
	_, err := a.Allocate(caching.Request{Bytes: 18 * mib})
	require.ErrorIs(t, err, caching.ErrOutOfMemory, "20 MiB are reserved for 3")
	allocate(t, a, 17*mib)
	_, err = caching.New(newMachine(1<<40), caching.Options{LimitBytes: 1}).Allocate(caching.Request{Bytes: 1})
	require.ErrorIs(t, err, caching.ErrOutOfMemory, "only 0 is no limit")
}

// Blocks above max_split_size_mb are not split, and kept for requests of about their size.
func TestMaxSplit(t *testing.T) {
	m := newMachine(200 * mib)
	a := caching.New(m, caching.Options{Settings: caching.Settings{MaxSplitBytes: 64 * mib}})
	b := allocate(t, a, 100*mib)
	addr := b.Addr
	a.Free(b)
	require.NotEqual(t, addr, allocate(t, a, 40*mib).Addr, "a smaller request does not break it up")
	whole := allocate(t, a, 90*mib)
	require.Equal(t, addr, whole.Addr)
	require.Equal(t, 100*mib, whole.Bytes)
	a.Free(whole)
	allocate(t, a, 70*mib) // 30 MiB less: too far from 100
	require.Equal(t, []uint64{100 * mib}, m.released)
}

// An expandable segment grows at its end by what a request lacks, in granules of 20 MiB, and its granules are released
// where they are free.
func TestExpandable(t *testing.T) {
	m := newMachine(1 << 40)
	a := caching.New(m, caching.Options{Settings: caching.Settings{ExpandableSegments: true}})
	first := allocate(t, a, 30*mib)
	second := allocate(t, a, 30*mib)
	require.Equal(t, first.Addr+30*mib, second.Addr)
	require.Equal(t, []uint64{40 * mib, 20 * mib}, m.taken)
	a.Free(first)
	a.ReleaseCached()
	require.NoError(t, a.Check())
	require.Equal(t, []uint64{20 * mib}, m.released, "the second granule is shared")
	third := allocate(t, a, 25*mib)
	require.Equal(t, first.Addr, third.Addr, "the gap is mapped again")
	a.Free(second)
	a.Free(third)
	a.ReleaseCached()
	require.NoError(t, a.Check())
	require.Zero(t, a.Reserved())
	require.Empty(t, a.Segments())
}

// Whatever is asked of it, the invariants hold.
func TestRandomRequests(t *testing.T) {
	for name, settings := range map[string]caching.Settings{
		"defaults":   {},
		"max split":  {MaxSplitBytes: 32 * mib},
		"roundup":    {RoundupDivisions: caching.RoundupAll(8)},
		"garbage":    {GarbageThreshold: 0.4},
		"expandable": {ExpandableSegments: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				random := rand.New(rand.NewPCG(seed, 7))
				m := newMachine(2 << 30)
				a := caching.New(m, caching.Options{Settings: settings, LimitBytes: 1 << 30})
				var live []*caching.Block
				for range 400 {
					if n := len(live); n > 0 && random.IntN(9) < 4 {
						i := random.IntN(n)
						a.Free(live[i])
						live = slices.Delete(live, i, i+1)
					} else if random.IntN(60) == 0 {
						a.ReleaseCached()
					} else {
						bytes := uint64(math.Exp(random.Float64() * math.Log(1<<27)))
						b, err := a.Allocate(caching.Request{Bytes: bytes + 1, Stream: random.Uint64N(2)})
						if err == nil {
							require.GreaterOrEqual(t, b.Bytes, bytes+1)
							live = append(live, b)
						}
					}
					require.NoError(t, a.Check())
					require.LessOrEqual(t, a.Reserved(), uint64(1<<30))
					require.Equal(t, uint64(2<<30)-m.memory, a.Reserved())
				}
				for _, b := range live {
					a.Free(b)
				}
				a.ReleaseCached()
				require.NoError(t, a.Check())
				require.Zero(t, a.Reserved())
			}
		})
	}
}

// A request gets the block that a walk over all pieces finds: the smallest that is large enough, and of those the
// lowest, or the lowest of the oldest segment. Hundreds of free blocks of one size are there at first.
func TestAFreeBlockIsTheBestOfAll(t *testing.T) {
	for _, byAge := range []bool{false, true} {
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, 8))
			a := caching.New(newMachine(1<<40), caching.Options{TiesByAge: byAge})
			var live, between []*caching.Block
			for range 400 {
				live, between = append(live, allocate(t, a, 512)), append(between, allocate(t, a, 512))
			}
			for _, at := range random.Perm(len(between)) {
				a.Free(between[at])
			}
			found := 0
			for range 2000 {
				if n := len(live); n > 0 && random.IntN(12) < 5 {
					at := random.IntN(n)
					a.Free(live[at])
					live[at] = live[n-1]
					live = live[:n-1]
					continue
				}
				r := caching.Request{Bytes: 1 + uint64(math.Exp(random.Float64()*math.Log(1<<27))),
					Stream: random.Uint64N(2)}
				want := bestOf(a.Segments(), r)
				require.Equal(t, want, a.Fit(r))
				b := must.OK(a.Allocate(r))(t)
				if want != 0 {
					require.Equal(t, want, b.Addr)
					found++
				}
				live = append(live, b)
			}
			require.NoError(t, a.Check())
			require.Greater(t, found, 500)
		}
	}
}

// bestOf returns the address of the free piece for a request, or 0. A machine's segments lie in the order of their age,
// so that the lowest address is in the oldest one.
func bestOf(segments []caching.Segment, r caching.Request) (addr uint64) {
	rounded := (&caching.Settings{}).Round(r.Bytes)
	best := uint64(math.MaxUint64)
	for _, s := range segments {
		if s.Stream != r.Stream || s.Small != (rounded <= mib) {
			continue
		}
		for _, p := range s.Pieces {
			if !p.Allocated && p.Bytes >= rounded && p.Bytes < best {
				best, addr = p.Bytes, p.Addr
			}
		}
	}
	return addr
}

// A replay of a recording in which PyTorch took new memory takes new memory, too: nothing cached is used or released.
func TestNewMemoryForARequest(t *testing.T) {
	m := newMachine(100 * mib)
	a := caching.New(m, caching.Options{})
	cached := allocate(t, a, 40*mib)
	a.Free(cached)
	b := must.OK(a.AllocateNew(caching.Request{Bytes: 40 * mib}))(t)
	require.NotEqual(t, cached.Addr, b.Addr)
	require.Equal(t, 80*mib, a.Reserved())
	require.ErrorIs(t, must.Err(a.AllocateNew(caching.Request{Bytes: 40 * mib})), caching.ErrOutOfMemory)
	require.Empty(t, m.released)
	require.NoError(t, a.Check())
}

// Older decides between two free blocks of one size in restored segments, and reports false for anything else.
func TestOlderDecidesBetweenFreeBlocksOfRestoredSegments(t *testing.T) {
	const first, second, small, nowhere = 2 << 40, 3 << 40, 4 << 40, 5 << 40
	m := newMachine(1 << 40)
	a := caching.New(m, caching.Options{})
	for _, s := range []caching.Piece{{Addr: first, Bytes: 40 * mib}, {Addr: second, Bytes: 40 * mib},
		{Addr: small, Bytes: 36 * mib}} {
		a.Restore(caching.Segment{Addr: s.Addr, Bytes: s.Bytes, Pieces: []caching.Piece{s}})
	}
	blocks := []*caching.Block{allocate(t, a, 40*mib), allocate(t, a, 40*mib), allocate(t, a, 40*mib),
		allocate(t, a, 50*mib)}
	taken, large := blocks[2].Addr, blocks[3].Addr
	for _, b := range blocks {
		a.Free(b)
	}
	request := caching.Request{Bytes: 36 * mib}
	for name, pair := range map[string][2]uint64{
		"no block at the address":        {nowhere, first},
		"no block that serves":           {second, nowhere},
		"neither":                        {nowhere, nowhere},
		"one that was not restored":      {taken, first},
		"before one that was not":        {second, taken},
		"larger":                         {large, first},
		"smaller":                        {small, first},
		"older already, by their number": {first, second},
	} {
		require.False(t, a.Older(request, pair[0], pair[1]), name)
	}
	require.True(t, a.Older(request, second, first))
	require.NoError(t, a.Check())
}
