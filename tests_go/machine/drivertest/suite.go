package drivertest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
)

// Open returns a new driver on each call. A machine without a GPU returns gpu.ErrorNoDevice, which skips the suite; any
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
		{"fact 3 calls need a context", callsNeedContext},
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
		{"fact 11 the granularity can be read without a context", granularityNeedsNoContext},
		{"fact 11 physical memory comes in granules", virtually(granulesAreWhole)},
		{"fact 11 devices without virtual memory management", devicesWithoutVMM},
		{"fact 12 reservations are addresses only", virtually(reservationsAreAddressesOnly)},
		{"fact 12 mistakes with reservations", virtually(reservationMistakes)},
		{"fact 13 physical memory is charged when it is made", virtually(physicalMemoryIsCharged)},
		{"fact 14 mistakes with mappings", virtually(mapMistakes)},
		{"fact 15 one handle at two places", virtually(oneHandleAtTwoPlaces)},
		{"fact 16 mistakes with access", virtually(accessMistakes)},
		{"fact 17 contents move with the handle", virtually(contentsMoveWithTheHandle)},
		{"fact 8 copies cross adjacent mappings", virtually(copiesCrossMappings)},
		{"fact 17 mistakes with unmapping", virtually(unmapMistakes)},
		{"fact 18 released handles live while they are mapped", virtually(releasedHandlesLiveWhileMapped)},
		{"fact 19 a stream keeps its order", streaming(aStreamKeepsItsOrder)},
		{"fact 19 streams go on alone", held(streamsGoOnAlone)},
		{"fact 20 the legacy stream and blocking ones", held(theLegacyStreamWaitsForBlockingOnes)},
		{"fact 22 destroyed streams finish", streaming(destroyedStreamsFinish)},
		{"fact 22 ids of streams are unique", streaming(streamIDsAreUnique)},
		{"fact 23 events order streams", streaming(eventsOrderStreams)},
		{"fact 23 a wait keeps the mark of its time", held(waitsKeepTheMarkOfTheirTime)},
		{"fact 23 events work across devices", held(eventsCrossDevices)},
		{"fact 24 priorities are brought into range", streaming(prioritiesAreBroughtIntoRange)},
		{"fact 25 words are written in order", held(wordsAreWrittenInOrder)},
		{"fact 25 words hold streams back", held(wordsHoldStreamsBack)},
		{"fact 25 words in device memory", held(wordsInDeviceMemory)},
		{"fact 25 devices without words", devicesWithoutWords},
		{"fact 26 asynchronous calls check their arguments", streaming(asyncArgumentsAreChecked)},
		{"fact 21 a context waits for destroyed streams", streaming(aContextWaitsForDestroyedStreams)},
		{"fact 31 captured work is done by launches", captured(capturedWorkIsDoneByLaunches)},
		{"fact 32 offences spoil a capture", captured(offencesSpoilACapture)},
		{"fact 33 captures go from stream to stream", captured(capturesGoFromStreamToStream)},
		{"fact 34 memory disturbs no capture", captured(memoryDisturbsNoCapture)},
		{"fact 35 graphs live as long as their launches", captured(graphsLiveAsLongAsTheirLaunches)},
		{"fact 36 managed memory is memory", managing(true, managedMemoryIsMemory)},
		{"fact 36 managed memory that has to fit is memory", managing(false, managedMemoryIsMemory)},
		{"fact 36 managed memory in streams", managing(true, managedMemoryInStreams)},
		{"fact 36 managed memory ends with its context", managing(true, managedMemoryEndsWithItsContext)},
		{"fact 36 devices without managed memory", devicesWithoutManagedMemory},
		{"fact 37 managed memory exceeds the device", managing(true, managedMemoryExceedsTheDevice)},
		{"fact 38 managed memory has to fit", managing(false, managedMemoryHasToFit)},
		{"fact 39 managed memory makes room", managing(true, managedMemoryMakesRoom)},
		{"fact 28 page-locked memory", streaming(hostMemoryRoundTrips)},
	}
	for _, fact := range facts {
		t.Run(fact.name, func(t *testing.T) { fact.check(t, newFixture(t, open)) })
	}
}

const mib = 1 << 20

// fixture is a driver and the device under test.
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

// retain retains the fixture's context until the test ends, even if the test closes the driver.
func (f fixture) retain(t *testing.T) fixture {
	t.Helper()
	require.NoError(t, f.ContextRetain(f.ordinal))
	t.Cleanup(func() {
		if err := f.ContextRelease(f.ordinal); !isOver(err) {
			require.NoError(t, err)
		}
	})
	return f
}

// isOver reports whether a call failed because the driver was closed.
func isOver(err error) bool { return errors.Is(err, gpu.ErrorDeinitialized) }

// alloc allocates memory until the test ends.
func (f fixture) alloc(t *testing.T, bytes uint64) uint64 {
	t.Helper()
	addr, err := f.MemAlloc(f.ordinal, bytes)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := f.MemFree(f.ordinal, addr); !isOver(err) {
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
