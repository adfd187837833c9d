package suballoc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/suballoc"
	"gpuconf/tests_go/fakedevice"
)

var _ bfc.Mapper = (*suballoc.Virtual)(nil)

func newVirtual(t require.TestingT, device *fakedevice.VirtualDevice, limitBytes uint64) *suballoc.Virtual {
	v, err := suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: limitBytes})
	require.NoError(t, err)
	return v
}

// Every byte of a limit can be had, whatever the limit is.
func TestEveryByteOfTheLimit(t *testing.T) {
	for _, limit := range []uint64{256, 1 * mib, 2 * mib, 7 * mib, 257 * mib, 64 * mib, 34*mib + 512} {
		for _, piece := range []uint64{256 * 1024, mib / 2, mib} {
			device := fakedevice.NewVirtual(1 << 40)
			v := newVirtual(t, device, limit)
			a, err := bfc.New(v, bfc.Options{})
			require.NoError(t, err)
			var got uint64
			for got < limit {
				b, err := a.Allocate(min(piece, limit-got))
				require.NoError(t, err, "limit %d, pieces of %d, after %d", limit, piece, got)
				got += b.Bytes
				require.NoError(t, a.Check())
				require.NoError(t, v.Check())
			}
			require.Equal(t, limit, device.LiveBytes)
			_, err = a.Allocate(1)
			require.Error(t, err)
			require.NoError(t, a.Close())
			require.NoError(t, v.Close())
			require.NoError(t, device.Clean())
		}
		device := fakedevice.NewVirtual(1 << 40)
		v := newVirtual(t, device, limit)
		a, err := bfc.New(v, bfc.Options{})
		require.NoError(t, err)
		b, err := a.Allocate(limit)
		require.NoError(t, err, "all of %d at once", limit)
		require.Equal(t, limit, b.Bytes)
		require.NoError(t, a.Close())
		require.NoError(t, v.Close())
		require.NoError(t, device.Clean())
	}
}
