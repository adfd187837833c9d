//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

// TestMappingsAreOpenToPeers: a device that can access another one's memory gets access with it. A driver that refuses
// it grants the rest.
func TestMappingsAreOpenToPeers(t *testing.T) {
	for name, row := range map[string]struct {
		environ map[string]string
		refused bool
		want    gpu.Result // of a copy by the other device
	}{
		"peers": {map[string]string{"GPUCONF_SIMULATE": "2xH100-80GB:1GiB"}, false, 0},
		"no peers": {map[string]string{"GPUCONF_SIMULATE": "2xH100-80GB:1GiB:no-peers"}, false,
			gpu.ErrorInvalidValue},
		"peers, in vain": {map[string]string{"GPUCONF_SIMULATE": "2xH100-80GB:1GiB"}, true,
			gpu.ErrorInvalidValue},
		"a single device": {nil, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			configure(t, row.environ)
			driver := open(t)
			devices := attempt.Get(driver.Devices())
			for ordinal := range devices {
				require.NoError(t, driver.ContextRetain(ordinal))
			}
			size, _, err := driver.MemGetAllocationGranularity(0)
			require.NoError(t, err)
			addr := attempt.Get(driver.MemAddressReserve(size, 0))
			handle := attempt.Get(driver.MemCreate(0, size))
			require.NoError(t, driver.MemMap(addr, size, handle))
			if row.refused {
				fake.Fail("cuMemSetAccess", 0, int(gpu.ErrorNotSupported))
			}
			require.NoError(t, driver.MemSetAccess(0, addr, size))
			require.NoError(t, driver.MemsetD8(0, addr, 7, size))
			require.Equal(t, int(row.want), fake.Copy(len(devices)-1, addr))
			require.NoError(t, driver.MemUnmap(addr, size))
			require.NoError(t, driver.MemRelease(handle))
			require.NoError(t, driver.MemAddressFree(addr, size))
			for ordinal := range devices {
				require.NoError(t, driver.ContextRelease(ordinal))
			}
		})
	}
}
