//go:build cgo && linux && (amd64 || arm64)

package blas_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/blas"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/computetest"
)

const (
	wide   = "-DINTEGER=int64_t"
	narrow = "-DINTEGER=int32_t"
)

// namings are how libraries call cblas_sgemm.
var namings = []struct{ name, define, integer string }{
	{"scipy_openblas64", "-DNAME(x)=scipy_##x##64_", wide},
	{"openblas64", "-DNAME(x)=x##64_", wide},
	{"mkl", "-DNAME(x)=x##_64", wide},
	{"scipy_openblas32", "-DNAME(x)=scipy_##x", narrow},
	{"plain", "-DNAME(x)=x", narrow},
	{"plain with 64 bits", "-DNAME(x)=x", wide},
}

func TestEachNaming(t *testing.T) {
	for _, naming := range namings {
		t.Run(naming.name, func(t *testing.T) {
			path := build(t, t.TempDir(), "libx.so", naming.define, naming.integer)
			library := blas.New(path, nil)
			require.Equal(t, path, attempt.Get(library.Describe()).Path)
			computetest.TestCompute(t, func(t *testing.T) computetest.Device { return device(t, library) })
			checkTakes(t, library, true)
		})
	}
}

// TestRealLibraries runs the suite on the libraries that GPUCONF_TEST_BLAS lists, and on NumPy's.
func TestRealLibraries(t *testing.T) {
	paths := filepath.SplitList(os.Getenv("GPUCONF_TEST_BLAS"))
	found := attempt.Get(filepath.Glob("../../../.venv/lib/python3*/site-packages/numpy.libs/*openblas*.so"))
	for _, path := range append(paths, found...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			path := attempt.Get(filepath.Abs(path))
			library := blas.New(path, nil)
			about := attempt.Get(library.Describe())
			t.Logf("%+v", about)
			computetest.TestCompute(t, func(t *testing.T) computetest.Device { return device(t, library) })
			checkTakes(t, library, true)
			checkUndefinedResult(t, library)
		})
	}
}

// square is a product of n × n matrices of ones, and its result.
func square(t *testing.T, library *blas.Library, n uint64) (done bool, result []float32, err error) {
	d := device(t, library)
	ones := d.Allocate(n * n * 4)
	raw := make([]byte, n*n*4)
	for i := range n * n {
		copy(raw[i*4:], []byte{0, 0, 0x80, 0x3f})
	}
	d.Write(ones, raw)
	c := d.Allocate(n * n * 4)
	done, err = library.Gemm(gpu.Gemm{DType: gpu.Float32, M: n, N: n, K: n, A: ones, B: ones, C: c})
	if done {
		d.Read(raw, c)
		for i := range n * n {
			bits := uint32(raw[i*4]) | uint32(raw[i*4+1])<<8 | uint32(raw[i*4+2])<<16 | uint32(raw[i*4+3])<<24
			result = append(result, math.Float32frombits(bits))
		}
	}
	return done, result, err
}

// checkTakes checks that a large product is computed, and a small one is not.
func checkTakes(t *testing.T, library *blas.Library, large bool) {
	t.Helper()
	done, result, err := square(t, library, 100)
	require.NoError(t, err)
	require.Equal(t, large, done)
	for _, value := range result {
		require.EqualValues(t, 100, value)
	}
	done, _, err = square(t, library, 2)
	require.NoError(t, err)
	require.False(t, done, "a small product")
}

// checkUndefinedResult multiplies into memory full of NaN: new memory is undefined. Vectors go to other functions.
func checkUndefinedResult(t *testing.T, library *blas.Library) {
	for _, size := range [][3]uint64{{64, 64, 64}, {1, 300, 200}, {300, 1, 200}, {1, 1, 5000}, {700, 30, 1}} {
		for variant := range 4 {
			d := device(t, library)
			m, n, k := size[0], size[1], size[2]
			fill := func(count uint64, value float64) uint64 {
				addr := d.Allocate(count * 8)
				raw := make([]byte, 0, count*8)
				for range count {
					bits := math.Float64bits(value)
					for shift := 0; shift < 64; shift += 8 {
						raw = append(raw, byte(bits>>shift))
					}
				}
				d.Write(addr, raw)
				return addr
			}
			c := fill(m*n, math.NaN())
			g := gpu.Gemm{DType: gpu.Float64, M: m, N: n, K: k, TransA: variant&1 != 0, TransB: variant&2 != 0,
				A: fill(m*k, 1), B: fill(k*n, 2), C: c}
			require.True(t, attempt.Get(library.Gemm(g)))
			raw := make([]byte, m*n*8)
			d.Read(raw, c)
			for i := range m * n {
				var bits uint64
				for b := range uint64(8) {
					bits |= uint64(raw[i*8+b]) << (8 * b)
				}
				require.Equal(t, float64(2*k), math.Float64frombits(bits), "%v %d", size, variant)
			}
		}
	}
}

func TestWheelsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	for _, file := range []string{
		"numpy.libs/libscipy_openblas64_-1.so", "numpy.libs/libopenblas64_p-r0-1.so",
		"scipy_openblas64/lib/libscipy_openblas64_.so", "scipy_openblas32/lib/libscipy_openblas.so",
		"../../libmkl_rt.so.3",
	} {
		folder := filepath.Join(t.TempDir(), "lib", "a[1]*", "site-packages")
		require.NoError(t, os.MkdirAll(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "../../libiomp5.so"), nil, 0o600)) // a part of MKL
		path := build(t, folder, file, "-DNAME(x)=scipy_##x##64_", wide, "-DCONFIG=scipy_openblas_get_config64_")
		about := inChild(t, "", "/nowhere:"+folder)
		require.Equal(t, blas.About{Library: "OpenBLAS", Version: "OpenBLAS 9.9 test", Path: path, Threads: 3}, about)
	}
}

func TestALoadedLibraryComesFirst(t *testing.T) {
	folder := t.TempDir()
	loaded := build(t, folder, "libopenblas-here.so", "-DNAME(x)=x", narrow, "-DCONFIG=openblas_get_config")
	build(t, folder, "numpy.libs/libopenblas64_.so", "-DNAME(x)=x##64_", wide, "-DCONFIG=openblas_get_config64_")
	require.Equal(t, loaded, inChild(t, loaded, folder).Path)
}

// MKL ends the process if its threads are missing.
func TestMKLWithoutItsThreadsIsNotLoaded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "lib", "python3", "site-packages")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	path := build(t, folder, "../../libmkl_rt.so.3", "-DNAME(x)=scipy_##x##64_", wide,
		"-DCONFIG=scipy_openblas_get_config64_")
	require.NotEqual(t, path, inChild(t, "", folder).Path)
}

// A library without a name of its own may be slower than gonum.
func TestAnUnknownLibraryIsNotUsedUnasked(t *testing.T) {
	folder := t.TempDir()
	unknown := build(t, folder, "libblas.so.3", "-DNAME(x)=x", narrow)
	about := inChild(t, unknown, folder)
	require.NotEqual(t, unknown, about.Path)
	require.Contains(t, about.Complaints, unknown+" is not a library that gpuconf knows to be faster than gonum")
}

// inChild returns what a new process finds, which has loaded a library before, in folders that are separated by colons.
func inChild(t *testing.T, before, folders string) (about blas.About) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childEnv+"="+folders, "LD_PRELOAD="+before)
	out, err := command.Output()
	require.NoError(t, err, "%s", out)
	require.NoError(t, json.Unmarshal(out, &about), "%s", out)
	return about
}

func TestALibraryThatCannotBeUsed(t *testing.T) {
	folder := t.TempDir()
	incomplete := build(t, folder, "libincomplete.so", "-DNAME(x)=x", narrow, "-DINCOMPLETE")
	text := filepath.Join(folder, "text.so")
	require.NoError(t, os.WriteFile(text, []byte("no library\n"), 0o600))
	for choice, why := range map[string]string{
		incomplete:            "lacks the functions of CBLAS",
		text:                  "file too short",
		"/nowhere/libblas.so": "No such file",
		"a\x00b":              "NUL",
		folder:                "cannot read file data",
	} {
		library := blas.New(choice, nil)
		for range 2 {
			done, _, err := square(t, library, 100)
			require.False(t, done)
			require.Equal(t, status.InvalidArgument, status.CodeOf(err))
			require.ErrorContains(t, err, why)
			require.ErrorContains(t, err, "GPUCONF_BLAS is ")
		}
		done, _, err := square(t, library, 2)
		require.False(t, done)
		require.NoError(t, err, "a small product needs no library")
		_, err = library.Describe()
		require.ErrorContains(t, err, why)
	}
}

func TestGonumIsAChoice(t *testing.T) {
	library := blas.New(blas.Gonum, nil)
	checkTakes(t, library, false)
	require.Equal(t, blas.About{}, attempt.Get(library.Describe()))
}

func TestSizesBeyondTheLibrarysIntegers(t *testing.T) {
	path := build(t, t.TempDir(), "libnarrow.so", "-DNAME(x)=x", narrow)
	done := attempt.Get(blas.New(path, nil).Gemm(gpu.Gemm{
		DType: gpu.Float32, M: 1 << 31, N: 1, K: 1, A: 64, B: 64, C: 64}))
	require.False(t, done)
}

func TestIntegersAndBadArgumentsAreNotTaken(t *testing.T) {
	library := blas.New("/nowhere", nil)
	for _, g := range []gpu.Gemm{
		{DType: gpu.Int32, M: 100, N: 100, K: 100, A: 64, B: 64, C: 64},
		{DType: gpu.Float32, M: 100, N: 100, K: 100, A: 63, B: 64, C: 64},
		{DType: gpu.Float32, M: 1 << 40, N: 1 << 40, K: 100, A: 64, B: 64, C: 64},
		{DType: gpu.Float32, M: 0, N: 100, K: 100},
		{DType: gpu.Float32, M: 1000, N: 100, K: 0, C: 64},
	} {
		require.False(t, attempt.Get(library.Gemm(g)))
	}
}

func TestManyThreadsSearchAndMultiply(t *testing.T) {
	library := blas.New(build(t, t.TempDir(), "libx.so", "-DNAME(x)=x##64_", wide), nil)
	var wait sync.WaitGroup
	for range 64 {
		wait.Go(func() {
			done, result, err := square(t, library, 20+rand.Uint64N(20))
			if !done || err != nil || result[0] < 20 {
				t.Errorf("%v %v", done, err)
			}
		})
	}
	wait.Wait()
}
