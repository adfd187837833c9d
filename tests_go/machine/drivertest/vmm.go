package drivertest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

// vmm is a retained device with virtual memory management.
type vmm struct {
	fixture
	granule uint64
}

// virtually runs a check on the last device that has virtual memory management.
func virtually(check func(*testing.T, vmm)) func(*testing.T, fixture) {
	return func(t *testing.T, f fixture) {
		for i := range f.devices {
			device := f.devices[len(f.devices)-1-i]
			if !device.VMM {
				continue
			}
			f.ordinal = device.Ordinal
			f.retain(t)
			granule, _, err := f.MemGetAllocationGranularity(f.ordinal)
			require.NoError(t, err)
			check(t, vmm{f, granule})
			return
		}
		t.Skip("no device has virtual memory management")
	}
}

// ended is for cleanups: the test may have closed the driver.
func ended(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, gpu.ErrorDeinitialized) {
		require.NoError(t, err)
	}
}

func (f vmm) reserve(t *testing.T, granules uint64) uint64 {
	t.Helper()
	addr := attempt.Get(f.MemAddressReserve(granules*f.granule, 0))
	t.Cleanup(func() { ended(t, f.MemAddressFree(addr, granules*f.granule)) })
	return addr
}

func (f vmm) create(t *testing.T, granules uint64) gpu.Handle {
	t.Helper()
	handle := attempt.Get(f.MemCreate(f.ordinal, granules*f.granule))
	t.Cleanup(func() { ended(t, f.MemRelease(handle)) })
	return handle
}

// mapped maps a handle until the test ends, and makes it accessible.
func (f vmm) mapped(t *testing.T, addr, granules uint64, handle gpu.Handle) {
	t.Helper()
	require.NoError(t, f.MemMap(addr, granules*f.granule, handle))
	t.Cleanup(func() { ended(t, f.MemUnmap(addr, granules*f.granule)) })
	require.NoError(t, f.MemSetAccess(f.ordinal, addr, granules*f.granule))
}

func devicesWithoutVMM(t *testing.T, f fixture) {
	for _, device := range f.devices {
		if device.VMM {
			continue
		}
		f.ordinal = device.Ordinal
		f.retain(t)
		_, _, err := f.MemGetAllocationGranularity(f.ordinal)
		require.ErrorIs(t, err, gpu.ErrorNotSupported)
		_, err = f.MemCreate(f.ordinal, 2*mib)
		require.ErrorIs(t, err, gpu.ErrorNotSupported)
	}
}

func granulesAreWhole(t *testing.T, f vmm) {
	minimum, recommended, err := f.MemGetAllocationGranularity(f.ordinal)
	require.NoError(t, err)
	require.Positive(t, minimum)
	require.Positive(t, recommended)
	require.Zero(t, recommended%minimum)
	before := f.free(t)
	for _, size := range []uint64{0, 1, f.granule - 1, f.granule + 1, f.granule + f.granule/2} {
		_, err := f.MemCreate(f.ordinal, size)
		require.ErrorIs(t, err, gpu.ErrorInvalidValue, "%d bytes", size)
	}
	require.Equal(t, before, f.free(t))
}

func granularityNeedsNoContext(t *testing.T, f fixture) {
	for _, device := range f.devices {
		if device.VMM {
			_, _, err := f.MemGetAllocationGranularity(device.Ordinal)
			require.NoError(t, err)
		}
	}
	for _, ordinal := range []int{-1, len(f.devices)} {
		_, _, err := f.MemGetAllocationGranularity(ordinal)
		require.ErrorIs(t, err, gpu.ErrorInvalidDevice)
	}
}

func reservationsAreAddressesOnly(t *testing.T, f vmm) {
	type span struct{ begin, end uint64 }
	allocated := f.alloc(t, 4*mib)
	live := []span{{allocated, allocated + 4*mib}}
	before := f.free(t)
	for _, row := range []struct{ granules, alignment uint64 }{{1, 0}, {3, 0}, {1, f.granule}, {2, 16 * f.granule},
		{500, 1 << 30}, {1, 1}} {
		size := row.granules * f.granule
		addr := attempt.Get(f.MemAddressReserve(size, row.alignment))
		t.Cleanup(func() { require.NoError(t, f.MemAddressFree(addr, size)) })
		require.NotZero(t, addr)
		require.Zero(t, addr%max(row.alignment, f.granule), "address %#x", addr)
		for _, other := range live {
			require.False(t, addr < other.end && other.begin < addr+size, "%#x overlaps", addr)
		}
		live = append(live, span{addr, addr + size})
	}
	require.Equal(t, before, f.free(t))
}

func reservationMistakes(t *testing.T, f vmm) {
	for name, row := range map[string]struct{ bytes, alignment uint64 }{
		"size 0": {0, 0}, "an alignment of 3 granules": {f.granule, 3 * f.granule},
	} {
		_, err := f.MemAddressReserve(row.bytes, row.alignment)
		require.ErrorIs(t, err, gpu.ErrorInvalidValue, name)
	}
	addr := attempt.Get(f.MemAddressReserve(4*f.granule, 0))
	for name, row := range map[string]struct{ addr, bytes uint64 }{
		"a part": {addr, f.granule}, "more": {addr, 5 * f.granule}, "from the middle": {addr + f.granule,
			3 * f.granule},
	} {
		require.ErrorIs(t, f.MemAddressFree(row.addr, row.bytes), gpu.ErrorInvalidValue, name)
	}
	require.NoError(t, f.MemAddressFree(addr, 4*f.granule))
	require.ErrorIs(t, f.MemAddressFree(addr, 4*f.granule), gpu.ErrorInvalidValue, "free already")
}

func physicalMemoryIsCharged(t *testing.T, f vmm) {
	start := f.free(t)
	handle := attempt.Get(f.MemCreate(f.ordinal, 4*f.granule))
	require.GreaterOrEqual(t, start-f.free(t), 4*f.granule)
	tooMuch := (f.devices[f.ordinal].TotalBytes/f.granule + 1) * f.granule
	before := f.free(t)
	_, err := f.MemCreate(f.ordinal, tooMuch)
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	require.Equal(t, before, f.free(t))
	require.NoError(t, f.MemRelease(handle))
	require.Equal(t, start, f.free(t))
}

func mapMistakes(t *testing.T, f vmm) {
	base := f.reserve(t, 8)
	one, two := f.create(t, 1), f.create(t, 2)
	f.mapped(t, base+2*f.granule, 1, one)
	require.NoError(t, f.MemsetD8(f.ordinal, base+2*f.granule, 7, f.granule))
	for name, row := range map[string]struct {
		addr, granules uint64
		handle         gpu.Handle
	}{
		"where the same is mapped":         {base + 2*f.granule, 1, one},
		"where another is mapped":          {base + 2*f.granule, 2, two},
		"over the beginning of a mapping":  {base + f.granule, 2, two},
		"nothing":                          {base, 0, two},
		"more than the handle has":         {base + 3*f.granule, 3, two},
		"in the middle of a granule":       {base + 4*f.granule + f.granule/2, 2, two},
		"in the null page":                 {0, 2, two},
		"at the end of the address space":  {^uint64(0) - f.granule + 1, 1, one},
		"a wrapped length over everything": {base, ^uint64(0)/f.granule - 1, two},
	} {
		wanted := gpu.ErrorInvalidValue
		if size := map[gpu.Handle]uint64{one: 1, two: 2}[row.handle]; row.granules != 0 && row.granules != size {
			wanted = gpu.ErrorNotSupported // a handle is mapped as a whole
		}
		require.ErrorIs(t, f.MemMap(row.addr, row.granules*f.granule, row.handle), wanted, name)
	}
	require.Equal(t, bytes.Repeat([]byte{7}, 16), f.read(t, base+2*f.granule, 16))
	f.mapped(t, base, 2, two)
	f.mapped(t, base+6*f.granule, 2, two)
}

func oneHandleAtTwoPlaces(t *testing.T, f vmm) {
	base := f.reserve(t, 4)
	handle := f.create(t, 1)
	here, there := base, base+3*f.granule
	f.mapped(t, here, 1, handle)
	f.mapped(t, there, 1, handle)
	require.NoError(t, f.MemsetD8(f.ordinal, here, 0x11, f.granule))
	require.NoError(t, f.MemsetD8(f.ordinal, there+100, 0x22, 100))
	want := append(bytes.Repeat([]byte{0x11}, 100), bytes.Repeat([]byte{0x22}, 100)...)
	require.Equal(t, want, f.read(t, here, 200))
	require.Equal(t, want, f.read(t, there, 200))
}

func accessMistakes(t *testing.T, f vmm) {
	base := f.reserve(t, 6)
	first, second := f.create(t, 2), f.create(t, 1)
	require.NoError(t, f.MemMap(base, 2*f.granule, first))
	require.NoError(t, f.MemMap(base+3*f.granule, f.granule, second))
	for name, row := range map[string]struct{ addr, granules uint64 }{
		"where nothing is mapped":       {base + 4*f.granule, 1},
		"over the end of a mapping":     {base, 3},
		"over a hole":                   {base, 4},
		"outside any reservation":       {0, 1},
		"nothing":                       {base, 0},
		"over the end of a reservation": {base + 3*f.granule, 4},
	} {
		require.ErrorIs(t, f.MemSetAccess(f.ordinal, row.addr, row.granules*f.granule), gpu.ErrorInvalidValue, name)
	}
	require.NoError(t, f.MemSetAccess(f.ordinal, base, 2*f.granule))
	require.NoError(t, f.MemsetD8(f.ordinal, base, 1, 2*f.granule))
	require.NoError(t, f.MemUnmap(base, 2*f.granule))
	require.NoError(t, f.MemUnmap(base+3*f.granule, f.granule))
}

func contentsMoveWithTheHandle(t *testing.T, f vmm) {
	base := f.reserve(t, 8)
	handles := make([]gpu.Handle, 4)
	for i := range handles {
		handles[i] = f.create(t, 1)
		at := base + uint64(i)*f.granule
		require.NoError(t, f.MemMap(at, f.granule, handles[i]))
	}
	require.NoError(t, f.MemSetAccess(f.ordinal, base, 4*f.granule), "one call for adjacent mappings")
	for i := range handles {
		require.NoError(t, f.MemsetD8(f.ordinal, base+uint64(i)*f.granule, byte(i+1), f.granule))
	}
	require.NoError(t, f.MemUnmap(base, f.granule))
	require.NoError(t, f.MemUnmap(base+f.granule, 3*f.granule), "one call for adjacent mappings")
	for i, handle := range handles { // in reverse order, elsewhere
		f.mapped(t, base+uint64(7-i)*f.granule, 1, handle)
	}
	for i := range handles {
		at := base + uint64(7-i)*f.granule
		require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, int(f.granule)), f.read(t, at, int(f.granule)))
	}
}

func copiesCrossMappings(t *testing.T, f vmm) {
	base := f.reserve(t, 4)
	for i := range uint64(3) {
		f.mapped(t, base+i*f.granule, 1, f.create(t, 1))
	}
	require.NoError(t, f.MemsetD8(f.ordinal, base, 3, 3*f.granule))
	require.NoError(t, f.MemcpyHtoD(f.ordinal, base+f.granule-2, []byte{1, 2, 4, 5}))
	require.Equal(t, []byte{3, 1, 2, 4, 5, 3}, f.read(t, base+f.granule-3, 6))
	require.NoError(t, f.MemcpyDtoDAsync(f.ordinal, base+2*f.granule-2, base+f.granule-2, 4,
		gpu.StreamNull))
	require.Equal(t, []byte{3, 1, 2, 4, 5, 3}, f.read(t, base+2*f.granule-3, 6))
	require.ErrorIs(t, f.MemsetD8(f.ordinal, base+3*f.granule-1, 3, 2), gpu.ErrorInvalidValue,
		"over the end of the last mapping")
}

func unmapMistakes(t *testing.T, f vmm) {
	base := f.reserve(t, 6)
	f.mapped(t, base, 2, f.create(t, 2))
	f.mapped(t, base+3*f.granule, 1, f.create(t, 1))
	require.NoError(t, f.MemsetD8(f.ordinal, base, 7, 2*f.granule))
	for name, row := range map[string]struct{ addr, granules uint64 }{
		"the first half of a mapping":    {base, 1},
		"the second half of a mapping":   {base + f.granule, 1},
		"where nothing is mapped":        {base + 2*f.granule, 1},
		"a mapping and a hole behind it": {base, 3},
		"nothing":                        {base, 0},
		"outside any reservation":        {0, 1},
	} {
		require.ErrorIs(t, f.MemUnmap(row.addr, row.granules*f.granule), gpu.ErrorInvalidValue, name)
	}
	require.Equal(t, bytes.Repeat([]byte{7}, 16), f.read(t, base+2*f.granule-16, 16))
}

func releasedHandlesLiveWhileMapped(t *testing.T, f vmm) {
	base := f.reserve(t, 4)
	start := f.free(t)
	handle := attempt.Get(f.MemCreate(f.ordinal, 2*f.granule))
	require.NoError(t, f.MemMap(base, 2*f.granule, handle))
	require.NoError(t, f.MemMap(base+2*f.granule, 2*f.granule, handle))
	require.NoError(t, f.MemSetAccess(f.ordinal, base, 4*f.granule))
	require.NoError(t, f.MemRelease(handle))
	require.GreaterOrEqual(t, start-f.free(t), 2*f.granule)
	require.NoError(t, f.MemsetD8(f.ordinal, base, 9, 2*f.granule))
	require.NoError(t, f.MemUnmap(base, 2*f.granule))
	require.GreaterOrEqual(t, start-f.free(t), 2*f.granule, "it is still mapped once")
	require.Equal(t, []byte{9, 9}, f.read(t, base+2*f.granule, 2))
	require.NoError(t, f.MemUnmap(base+2*f.granule, 2*f.granule))
	require.Equal(t, start, f.free(t))
}
