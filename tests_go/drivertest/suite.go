package drivertest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
)

// Open gives a driver of its own to each call. A machine without a GPU answers gpu.ErrorNoDevice, and the suite is then skipped; any
// other error fails it.
type Open func() (gpu.Driver, error)

// TestDriver runs the suite.
func TestDriver(t *testing.T, open Open) {
	facts := []struct {
		name  string
		check func(*testing.T, fixture)
	}{
		{"fact 1 devices can be read without a context", devicesNeedNoContext},
		{"fact 2 ordinals are dense and devices are described", devicesAreDescribed},
		{"fact 3 memory calls need a context", memoryNeedsContext},
		{"fact 3 retains are counted", retainsAreCounted},
		{"fact 3 the last release ends allocations", lastReleaseEndsAllocations},
		{"fact 3 an ordinal that is not there", unknownOrdinals},
		{"fact 4 addresses are aligned and disjoint", addressesAreDisjoint},
		{"fact 4 size 0 is refused", sizeZeroIsRefused},
		{"fact 5 a failed allocation changes nothing", outOfMemoryChangesNothing},
		{"fact 6 only live addresses can be freed", freeTakesLiveAddressesOnly},
		{"fact 7 free bytes fall and return", freeBytesFallAndReturn},
		{"fact 8 what is written is read back", bytesRoundTrip},
		{"fact 8 copies and fills stay within one allocation", accessStaysInside},
		{"fact 9 after Close every call is refused", closedDriverRefuses},
		{"fact 10 calls from many goroutines", manyGoroutines},
	}
	for _, fact := range facts {
		t.Run(fact.name, func(t *testing.T) { fact.check(t, newFixture(t, open)) })
	}
}

const mib = 1 << 20

// fixture is a driver with one device to try things on.
type fixture struct {
	gpu.Driver
	devices []gpu.Device
	ordinal int
}

func newFixture(t *testing.T, open Open) fixture {
	t.Helper()
	driver, err := open()
	if errors.Is(err, gpu.ErrorNoDevice) {
		t.Skip("no GPU on this machine")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, driver.Close()) })
	devices, err := driver.Devices()
	if errors.Is(err, gpu.ErrorNoDevice) {
		t.Skip("no GPU on this machine")
	}
	require.NoError(t, err)
	if len(devices) == 0 {
		t.Skip("no GPU is visible")
	}
	return fixture{Driver: driver, devices: devices, ordinal: devices[len(devices)-1].Ordinal}
}

// retain holds the fixture's context until the test ends, whether or not the test closes the driver.
func (f fixture) retain(t *testing.T) fixture {
	t.Helper()
	require.NoError(t, f.ContextRetain(f.ordinal))
	t.Cleanup(func() {
		if err := f.ContextRelease(f.ordinal); !errors.Is(err, gpu.ErrorDeinitialized) {
			require.NoError(t, err)
		}
	})
	return f
}

// alloc takes memory until the test ends.
func (f fixture) alloc(t *testing.T, bytes uint64) uint64 {
	t.Helper()
	addr, err := f.MemAlloc(f.ordinal, bytes)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := f.MemFree(f.ordinal, addr); !errors.Is(err, gpu.ErrorDeinitialized) {
			require.NoError(t, err)
		}
	})
	return addr
}

func (f fixture) free(t *testing.T) uint64 {
	t.Helper()
	free, total, err := f.MemGetInfo(f.ordinal)
	require.NoError(t, err)
	require.LessOrEqual(t, free, total)
	return free
}
