package figures_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/figures"
)

// Other versions of gpuconf read the words in a file, so none may move. Those between the peak and the libraries are 0.
func TestEachWordHasItsPlace(t *testing.T) {
	p := figures.Pool{Limit: 1, Reserved: 2, Peak: 3, Libraries: [...]uint64{4, 5, 6, 7, 8, 9, 10, 11}}
	var words []uint64
	data, err := binary.Append(nil, binary.NativeEndian, &p)
	require.NoError(t, err)
	for word := range slices.Chunk(data, 8) {
		words = append(words, binary.NativeEndian.Uint64(word))
	}
	require.Equal(t, []uint64{1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11}, words)
	require.Len(t, data, figures.Bytes)
	require.EqualValues(t, figures.Bytes, unsafe.Sizeof(p), "a pool in memory is one in the file")
}

// An allocation writes the words of the libraries only, which share a cache line with no others.
func TestEachHalfIsACacheLine(t *testing.T) {
	const line = 64
	var p figures.Pool
	require.EqualValues(t, line, unsafe.Offsetof(p.Libraries))
	require.EqualValues(t, line, unsafe.Sizeof(p.Libraries))
	require.Less(t, unsafe.Offsetof(p.Peak), uintptr(line))
}

func TestEveryHolderHasAWord(t *testing.T) {
	require.EqualValues(t, figures.Libraries-1, holder.ID(math.MaxUint16).Library(), "the last one there can be")
	for _, library := range []holder.Library{holder.C, holder.Gpuconf, holder.Torch, holder.CuPy, holder.Numba} {
		require.Less(t, int(library), figures.Libraries, library)
	}
}

// What is in use is the sum over the libraries, whatever the other words say.
func TestInUse(t *testing.T) {
	p := figures.Pool{Limit: 1 << 40, Reserved: 1 << 39, Peak: 1 << 38}
	require.Zero(t, p.InUse())
	var want uint64
	for library := range p.Libraries {
		p.Libraries[library] = 1 << library
		want += 1 << library
		require.Equal(t, want, p.InUse(), "library %d", library)
	}
}
