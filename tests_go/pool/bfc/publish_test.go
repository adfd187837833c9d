package bfc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/figures"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// What others read is exact after each call, by library, whatever the tags, streams and places.
func TestThePublishedFiguresFollowTheAllocator(t *testing.T) {
	w, other := captureWorld(t, 80)
	torch, tagged, cupy := holder.Of(holder.Torch, 0), holder.Of(holder.Torch, 7), holder.Of(holder.CuPy, 1)
	var blocks []bfc.Block
	take := func(s bfc.Stream, bytes uint64, by holder.ID) {
		blocks = append(blocks, must.OK(w.a.AllocateFor(s, bytes, by))(t))
	}
	take(0, 1000, torch)

	var place figures.Pool
	libraries := func() map[holder.Library]uint64 {
		require.NoError(t, w.a.Check())
		found := map[holder.Library]uint64{}
		for library, bytes := range place.Libraries {
			if bytes > 0 {
				found[holder.Library(library)] = bytes
			}
		}
		return found
	}
	w.a.Publish(&place)
	require.Equal(t, map[holder.Library]uint64{holder.Torch: 1024}, libraries(), "what is in use already counts")
	take(0, 5000, tagged)
	take(0, 256, cupy)
	require.Equal(t, map[holder.Library]uint64{holder.Torch: 1024 + 5120, holder.CuPy: 256}, libraries())
	require.NoError(t, w.a.RecordStream(blocks[1].Addr, other)) // from here on streams share the pool
	take(other, 512, holder.Of(holder.Numba, 0))
	require.NoError(t, w.a.Free(blocks[1].Addr))
	require.Equal(t, map[holder.Library]uint64{holder.Torch: 1024, holder.CuPy: 256, holder.Numba: 512}, libraries())
	s := w.a.Stats()
	require.Equal(t, []uint64{s.BytesInUse, s.PeakBytesInUse, s.BytesLimit, s.BytesReserved},
		[]uint64{place.InUse(), place.Peak, place.Limit, place.Reserved})

	var elsewhere figures.Pool
	w.a.Publish(&elsewhere)
	require.Equal(t, place, elsewhere)
	for _, block := range []bfc.Block{blocks[0], blocks[2], blocks[3]} {
		require.NoError(t, w.a.Free(block.Addr))
	}
	require.Equal(t, s.BytesInUse, place.InUse(), "the earlier place is not written any more")
	require.Zero(t, elsewhere.InUse())
	w.a.Publish(nil)
	take(0, 1000, torch)
	require.Zero(t, elsewhere.InUse())
	require.NoError(t, w.a.Free(blocks[4].Addr))
}

func unwatched(t *testing.T) (w *world, take func(s bfc.Stream) bfc.Block) {
	w = newWorld(t, suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 80 * 256}), bfc.Options{})
	return w, func(s bfc.Stream) bfc.Block {
		return must.OK(w.a.AllocateFor(s, 1024, holder.Of(holder.Torch, 0)))(t)
	}
}

// Another process must not read figures of an allocator that is closed.
func TestClosingEndsThePublishedFigures(t *testing.T) {
	w, take := unwatched(t)
	block := take(0)
	var place figures.Pool
	w.a.Publish(&place)
	require.NoError(t, w.a.Free(block.Addr))
	require.NotZero(t, place.Limit)
	require.NotZero(t, place.Reserved)
	require.NoError(t, w.a.Close())
	require.Equal(t, figures.Pool{}, place)
}

// A caller that must not wait is refused once streams share the pool: a free may queue a mark in a stream then.
func TestTryFreeIDRefusesInSharedMode(t *testing.T) {
	w, take := unwatched(t)
	first, second := take(0), take(0)
	require.True(t, must.OK(w.a.TryFreeID(first.Addr, first.ID))(t))
	third := take(w.newStream())
	require.False(t, must.OK(w.a.TryFreeID(second.Addr, second.ID))(t))
	for _, block := range []bfc.Block{second, third} {
		require.NoError(t, w.a.Free(block.Addr), "it is still there")
	}
	require.NoError(t, w.a.Close())
}
