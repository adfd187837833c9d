package bfc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
)

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
