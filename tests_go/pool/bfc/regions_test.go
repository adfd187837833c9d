package bfc_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// below is a Mapper that has a region for the last MiB below its range of three granules of 2 MiB, and does not unmap
// one address.
type below struct {
	doubling
	mapped, stuck uint64
}

func (m *below) Range() (addr, bytes, granule uint64) {
	return fakedevice.Base + 1<<30, 6 * mib, 2 * mib
}
func (m *below) AvailableBytes() uint64 { return 7*mib - m.mapped }

func (m *below) Map(_, atLeast, _ uint64) (uint64, error) {
	if m.AvailableBytes() < 2*mib {
		return 0, errors.New("no granule is left")
	}
	m.mapped += 2 * mib
	return max(2*mib, atLeast), nil
}

func (m *below) Extend(uint64) (addr, bytes uint64, err error) {
	m.mapped += mib
	return fakedevice.Base, mib, nil
}

func (m *below) Unmap(addr, bytes uint64) (from, to uint64, err error) {
	if addr == m.stuck {
		return 0, 0, errors.New("stuck")
	}
	m.mapped -= bytes
	return addr, addr + bytes, nil
}

// A trim releases the idle granules of a growing pool, also next to a region of other memory that is in use, and beyond
// a granule that the driver does not unmap.
func TestATrimPassesWhatItCannotRelease(t *testing.T) {
	m := &below{doubling: doubling{scripted: scripted{limit: 7 * mib}}}
	a := must.OK(bfc.New(m, bfc.Options{}))(t)
	granules := []bfc.Block{allocate(t, a, 2*mib), allocate(t, a, 2*mib), allocate(t, a, 2*mib)}
	last := allocate(t, a, mib)
	require.Equal(t, uint64(fakedevice.Base), last.Addr)
	trimmed := func(block bfc.Block) (released uint64, err error) {
		require.NoError(t, a.Free(block.Addr))
		return a.Trim()
	}
	released := must.OK(trimmed(granules[1]))(t)
	require.Equal(t, uint64(2*mib), released)

	require.NoError(t, a.Free(granules[2].Addr))
	m.stuck = granules[0].Addr
	released, err := trimmed(granules[0])
	require.ErrorContains(t, err, "stuck")
	require.Equal(t, uint64(2*mib), released, "the last granule")
	require.Equal(t, uint64(3*mib), a.Stats().BytesReserved)

	m.stuck = 0
	released = must.OK(a.Trim())(t)
	require.Equal(t, uint64(2*mib), released)
	require.NoError(t, a.Check())
	require.NoError(t, a.Free(last.Addr))
	require.NoError(t, a.Close())
}

// grown returns a growing pool with room for exactly 128 blocks of 4 MiB, in which all of them but the last have been
// freed.
func grown(t *testing.T, limitBytes uint64) *bfc.Allocator {
	sub := suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: limitBytes, Growth: true})
	a := newAllocator(t, sub, bfc.Options{Split: bfc.SplitRule{TensorFlow: true}, GarbageCollect: true})
	var blocks []bfc.Block
	for range 128 {
		blocks = append(blocks, allocate(t, a, 4*mib))
	}
	require.EqualValues(t, 512*mib, a.Stats().BytesReserved)
	for _, block := range blocks[:127] {
		require.NoError(t, a.Free(block.Addr))
	}
	return a
}

// Case 177: 508 MiB are free, but the live block keeps its region of 256 MiB, and regions are never joined.
func TestOneLiveBlockKeepsItsRegion(t *testing.T) {
	a := grown(t, 512*mib)
	_, err := a.Allocate(508 * mib)
	require.Equal(t, bfc.Fragmented, outOfMemory(t, err).Cause)
	require.EqualValues(t, 512*mib, a.Stats().BytesReserved, "a request that can't be served releases nothing")
	require.NoError(t, a.Check())
}

// Case 178: a request that needs the memory of the idle regions gets it, and leaves one region with one free chunk.
func TestIdleRegionsGiveWay(t *testing.T) {
	a := grown(t, 2048*mib)
	block := allocate(t, a, (2048-256)*mib)
	require.NoError(t, a.Check())
	regions := a.MemoryMap().Regions
	require.Len(t, regions, 2)
	for _, region := range regions {
		if region.Addr == block.Addr {
			require.EqualValues(t, (2048-256)*mib, region.Bytes)
			continue
		}
		require.EqualValues(t, 256*mib, region.Bytes)
		require.Len(t, region.Chunks, 2)
		require.True(t, region.Chunks[0].Free)
		require.False(t, region.Chunks[1].Free)
	}
}
