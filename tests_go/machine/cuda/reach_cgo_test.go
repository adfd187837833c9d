//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

// TestReachAgainstAPlainModel: after any mixture of mapping, access, unmapping and driver failures, the memory that a
// device can access is what a table of granules says.
func TestReachAgainstAPlainModel(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	const granule, slots = 2 * mib, 12
	rapid.Check(t, func(t *rapid.T) {
		base := attempt.Get(driver.MemAddressReserve(slots*granule, 0))
		handle := attempt.Get(driver.MemCreate(0, granule))
		const absent, mapped, reachable = 0, 1, 2
		var state [slots]int
		all := func(from, count int, least int) bool {
			for _, one := range state[from : from+count] {
				if one < least {
					return false
				}
			}
			return true
		}
		set := func(from, count, to int) {
			for i := range count {
				state[from+i] = to
			}
		}
		expect := func(good bool, err error) {
			if good {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, gpu.ErrorInvalidValue)
			}
		}
		rangeOf := func() (from, count int, addr, bytes uint64) {
			from = rapid.IntRange(0, slots-1).Draw(t, "from")
			count = rapid.IntRange(1, slots-from).Draw(t, "count")
			return from, count, base + uint64(from)*granule, uint64(count) * granule
		}
		t.Repeat(map[string]func(*rapid.T){
			"map": func(t *rapid.T) {
				from, _, addr, _ := rangeOf()
				expect(state[from] == absent, driver.MemMap(addr, granule, handle))
				state[from] = max(state[from], mapped)
			},
			"set access": func(*rapid.T) {
				from, count, addr, bytes := rangeOf()
				good := all(from, count, mapped)
				expect(good, driver.MemSetAccess(0, addr, bytes))
				if good {
					set(from, count, reachable)
				}
			},
			"unmap": func(*rapid.T) {
				from, count, addr, bytes := rangeOf()
				good := all(from, count, mapped)
				expect(good, driver.MemUnmap(addr, bytes))
				if good {
					set(from, count, absent)
				}
			},
			"unmap, refused": func(*rapid.T) {
				from, count, addr, bytes := rangeOf()
				if all(from, count, mapped) {
					fake.Fail("cuMemUnmap", 0, int(gpu.ErrorUnknown))
					require.ErrorIs(t, driver.MemUnmap(addr, bytes), gpu.ErrorUnknown)
				}
			},
			"touch": func(t *rapid.T) {
				first := rapid.IntRange(0, slots*granule-1).Draw(t, "first")
				length := rapid.IntRange(1, slots*granule-first).Draw(t, "length")
				from := first / granule
				count := (first+length-1)/granule - from + 1
				expect(all(from, count, reachable), driver.MemsetD8(0, base+uint64(first), 0, uint64(length)))
			},
		})
		for i, one := range state {
			if one != absent {
				require.NoError(t, driver.MemUnmap(base+uint64(i)*granule, granule))
			}
		}
		require.NoError(t, driver.MemRelease(handle))
		require.NoError(t, driver.MemAddressFree(base, slots*granule))
	})
}
