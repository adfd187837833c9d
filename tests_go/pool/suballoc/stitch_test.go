package suballoc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// spareRuns returns the spare stretches, in granules of 2 MiB from the start of the range.
func spareRuns(v *suballoc.Virtual) (runs [][2]uint64) {
	base, _, granule := v.Range()
	v.EachSpare(func(addr, bytes uint64) { runs = append(runs, [2]uint64{(addr - base) / granule, bytes / granule}) })
	return runs
}

func TestSpareMemory(t *testing.T) {
	const granule = 2 * mib
	device := fakedevice.NewVirtual(1 << 40)
	v := newVirtual(t, device, 9*granule+mib)
	base, bytes, _ := v.Range()
	must.OK(v.Map(base, 8*granule, bytes))(t)
	device.Write(base+7*granule, granule, 7)
	rest, restBytes := must.OK2(v.Extend(3 * mib))(t)
	require.Equal(t, uint64(3*mib), restBytes)
	device.TakeOps()

	require.NoError(t, v.Spare(base, 2*granule))
	require.NoError(t, v.Spare(base+4*granule, 3*granule))
	require.NoError(t, v.Spare(rest, restBytes))
	require.Equal(t, uint64(5*granule+3*mib), v.SpareBytes())
	require.Equal(t, v.SpareBytes(), v.AvailableBytes(), "the limit is met")
	require.Len(t, spareRuns(v), 3)
	require.Equal(t, [][2]uint64{{0, 2}, {4, 3}}, spareRuns(v)[:2])
	require.NoError(t, v.Unspare(rest, restBytes))
	require.NoError(t, v.Unspare(base+5*granule, granule))
	require.Equal(t, [][2]uint64{{0, 2}, {4, 1}, {6, 1}}, spareRuns(v))
	require.Equal(t, uint64(granule), must.OK(v.Map(base+4*granule, granule, granule))(t))
	require.Empty(t, device.TakeOps(), "the device knows nothing of it")
	require.NoError(t, v.Check())

	moved := must.OK(v.Stitch(base+7*granule, 3*granule))(t)
	require.Equal(t, uint64(2*granule), moved)
	require.Equal(t, []string{"unmap 2097152@0xc00000", "unmap 2097152@0x200000", "map 2097152@0x1000000",
		"map 2097152@0x1200000", "access 4194304@0x1000000"},
		device.TakeOps(), "the highest are taken, and access is one call")
	require.True(t, device.Holds(base+7*granule, granule, 7), "what was there stays")
	device.Write(base+8*granule, 2*granule, 8)
	require.NoError(t, v.Check())

	require.NoError(t, v.Spare(rest, restBytes))
	moved = must.OK(v.Stitch(base+10*granule, 2*granule))(t, "one granule is there, one is made of what the rest had")
	require.Equal(t, uint64(granule), moved)
	require.Equal(t, uint64(9*granule), v.HeldBytes())
	require.Zero(t, v.SpareBytes())
	must.Fail(t, status.ResourceExhausted, must.Err(v.Stitch(base+12*granule, granule)))

	require.NoError(t, v.Spare(base+10*granule, 2*granule))
	require.NoError(t, v.DropSpare())
	require.Equal(t, uint64(7*granule), v.HeldBytes())
	require.Equal(t, v.HeldBytes(), device.LiveBytes)
	require.NoError(t, v.Check())
	require.NoError(t, v.Close())
	require.NoError(t, device.Clean())
}

// A spare region is reused for a request that would get the same region, and prevents any other.
func TestASpareRestComesBack(t *testing.T) {
	device := fakedevice.NewVirtual(1 << 40)
	v := newVirtual(t, device, 5*mib)
	rest, bytes := must.OK2(v.Extend(5 * mib))(t)
	require.NoError(t, v.Spare(rest, bytes))
	device.TakeOps()
	again, bytes := must.OK2(v.Extend(4*mib + 256))(t)
	require.Equal(t, []uint64{rest, 5 * mib}, []uint64{again, bytes})
	require.Empty(t, device.TakeOps())
	require.NoError(t, v.Spare(rest, bytes))
	base, _, _ := v.Range()
	must.Fail(t, status.ResourceExhausted, must.Err(v.Map(base, 2*mib, 2*mib)))
	must.OK(v.Stitch(base, 4*mib))(t)
	require.NoError(t, v.Spare(base, 4*mib))
	require.ErrorContains(t, must.Err2(v.Extend(5*mib)), "are spare memory, which must be released first")
	require.NoError(t, v.DropSpare())
	must.OK2(v.Extend(5 * mib))(t)
	require.NoError(t, v.Check())
	require.NoError(t, v.Close())
	require.NoError(t, device.Clean())
}

func TestSpareMemoryRefuses(t *testing.T) {
	device := fakedevice.NewVirtual(1 << 40)
	v := newVirtual(t, device, 16*mib)
	base, bytes, _ := v.Range()
	must.OK(v.Map(base, 4*mib, 4*mib))(t)
	stitch := func(addr, bytes uint64) error { _, err := v.Stitch(addr, bytes); return err }
	for name, err := range map[string]error{
		"sparing what is not there":           v.Spare(base+4*mib, 2*mib),
		"sparing half a granule":              v.Spare(base, mib),
		"sparing from within a granule":       v.Spare(base+mib, 3*mib),
		"sparing nothing":                     v.Spare(base, 0),
		"sparing out of the range":            v.Spare(base+bytes, 2*mib),
		"taking back what is not spare":       v.Unspare(base, 2*mib),
		"taking back what is not there":       v.Unspare(base+4*mib, 2*mib),
		"stitching nothing":                   stitch(base, 0),
		"stitching beyond the range":          stitch(base+bytes-2*mib, 4*mib),
		"stitching from within a granule":     stitch(base+256, 2*mib),
		"taking back from within a granule":   v.Unspare(base+256, 2*mib),
		"taking back more than the range has": v.Unspare(base, bytes+2*mib),
	} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), name)
	}
	require.Zero(t, v.SpareBytes())
	require.NoError(t, v.Check())
	require.NoError(t, v.Close())
	for name, err := range map[string]error{
		"spare": v.Spare(base, 2*mib), "unspare": v.Unspare(base, 2*mib), "stitch": stitch(base, 2*mib),
		"drop": v.DropSpare(),
	} {
		require.Equal(t, status.FailedPrecondition, status.CodeOf(err), name)
	}
	require.NoError(t, device.Clean())
}

// A step of 512 MiB or more has handles of 64 MiB. Stitching from the middle of a spare one replaces it; if the device
// refuses to unmap it, that is the error, and nothing has changed.
func TestStitchingFromTheMiddleOfAHandleMayFail(t *testing.T) {
	device := fakedevice.NewVirtual(1 << 40)
	v := newVirtual(t, device, 1024*mib)
	base, bytes, _ := v.Range()
	must.OK(v.Map(base, 512*mib, bytes))(t)
	require.NoError(t, v.Spare(base, 512*mib))
	device.FailOp = func(op string) error {
		if op == "unmap" {
			return fakedevice.ErrInjected
		}
		return nil
	}
	require.ErrorIs(t, must.Err(v.Stitch(base+480*mib, 64*mib)), fakedevice.ErrInjected)
	require.Equal(t, 512*mib, int(v.SpareBytes()))
	require.NoError(t, v.Check())

	device.FailOp = nil
	must.OK(v.Stitch(base+480*mib, 64*mib))(t)
	require.NoError(t, v.Check())
	require.NoError(t, v.Close())
	require.NoError(t, device.Clean())
}
