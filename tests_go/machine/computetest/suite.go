package computetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// TestCompute runs the suite. The tests have the numbers of the facts in gpu.Compute.
func TestCompute(t *testing.T, open func(t *testing.T) Device) {
	t.Run("float32", func(t *testing.T) { testFloat[float32](t, open(t)) })
	t.Run("float64", func(t *testing.T) { testFloat[float64](t, open(t)) })
	t.Run("int32", func(t *testing.T) {
		d := open(t)
		if slices.Contains(d.Lacks, gpu.Int32) {
			require.Equal(t, status.Unimplemented, status.CodeOf(d.Add(gpu.Add{DType: gpu.Int32})))
			return
		}
		testType[int32](t, d)
		t.Run("6 wraps around", func(t *testing.T) { testWrap(t, d) })
	})
	t.Run("6 no arithmetic on bools", func(t *testing.T) {
		d := open(t)
		require.Equal(t, status.Unimplemented, status.CodeOf(d.Add(gpu.Add{DType: gpu.Bool})))
		require.Equal(t, status.Unimplemented, status.CodeOf(d.Gemm(gpu.Gemm{DType: gpu.Bool})))
	})
	t.Run("7 bad arguments", func(t *testing.T) { testBadArguments(t, open(t)) })
	t.Run("9 many at once", func(t *testing.T) { testConcurrent(t, open(t)) })
}

func testFloat[T float32 | float64](t *testing.T, d Device) {
	testType[T](t, d)
	t.Run("5 NaN and infinity", func(t *testing.T) { testNotFinite[T](t, d) })
	t.Run("5 the same every time", func(t *testing.T) {
		a, b := randomFloats[T](70*90), randomFloats[T](90*80)
		first := multiply(t, d, gpu.Gemm{M: 70, N: 80, K: 90}, a, b)
		require.Equal(t, first, multiply(t, d, gpu.Gemm{M: 70, N: 80, K: 90}, a, b))
	})
}

func testType[T number](t *testing.T, d Device) {
	t.Run("products", func(t *testing.T) { testProducts[T](t, d) })
	t.Run("sums", func(t *testing.T) { testSums[T](t, d) })
	t.Run("4 empty inner dimension", func(t *testing.T) {
		c := put(t, d, []T{1, 2, 3, 4, 5, 6, 7})
		require.NoError(t, d.Gemm(gpu.Gemm{DType: typeOf[T](), M: 2, N: 3, C: c}))
		require.Equal(t, []T{0, 0, 0, 0, 0, 0, 7}, get[T](t, d, c, 7))
	})
	t.Run("3 empty results", func(t *testing.T) {
		require.NoError(t, d.Gemm(gpu.Gemm{DType: typeOf[T](), M: 0, N: 3, K: 2}))
		require.NoError(t, d.Gemm(gpu.Gemm{DType: typeOf[T](), M: 3, N: 0, K: 2}))
		require.NoError(t, d.Add(gpu.Add{DType: typeOf[T](), Out: gpu.Vector{Step: 1}}))
	})
}

// multiply runs a product in fresh memory and checks the elements beside the result.
func multiply[T number](t *testing.T, d Device, g gpu.Gemm, a, b []T) []T {
	t.Helper()
	n := int(g.M * g.N)
	g.DType, g.A, g.B, g.C = typeOf[T](), put(t, d, a), put(t, d, b), put(t, d, slices.Repeat([]T{77}, n+1))
	require.NoError(t, d.Gemm(g))
	require.Equal(t, rawOf(t, a), rawOf(t, get[T](t, d, g.A, len(a))), "an operand was written")
	c := get[T](t, d, g.C, n+1)
	require.Equal(t, T(77), c[n], "something beside the result was written")
	return c[:n]
}

func testProducts[T number](t *testing.T, d Device) {
	for _, size := range [][3]uint64{{1, 1, 1}, {2, 3, 2}, {1, 7, 5}, {5, 1, 3}, {3, 4, 1}, {17, 19, 23}, {65, 66, 64},
		{130, 70, 129}} {
		for _, trans := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
			g := gpu.Gemm{M: size[0], N: size[1], K: size[2], TransA: trans[0], TransB: trans[1]}
			t.Run(fmt.Sprintf("%dx%d from %d, %t %t", g.M, g.N, g.K, g.TransA, g.TransB), func(t *testing.T) {
				a, b := smallIntegers[T](g.M*g.K), smallIntegers[T](g.K*g.N)
				require.Equal(t, naive(g, a, b), multiply(t, d, g, a, b))
			})
		}
	}
}

func naive[T number](g gpu.Gemm, a, b []T) []T {
	at := func(m []T, trans bool, rows, columns, i, j uint64) T {
		if trans {
			return m[j*rows+i]
		}
		return m[i*columns+j]
	}
	c := make([]T, g.M*g.N)
	for i := range g.M {
		for j := range g.N {
			for l := range g.K {
				c[i*g.N+j] += at(a, g.TransA, g.M, g.K, i, l) * at(b, g.TransB, g.K, g.N, l, j)
			}
		}
	}
	return c
}

// smallIntegers returns values whose products are exact in every type; many are 0.
func smallIntegers[T number](n uint64) []T {
	r := rand.New(rand.NewPCG(n, 1))
	values := make([]T, n)
	for i := range values {
		values[i] = T(r.IntN(7) - 3)
	}
	return values
}

func randomFloats[T float32 | float64](n int) []T {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	values := make([]T, n)
	for i := range values {
		values[i] = T(r.NormFloat64())
	}
	return values
}

func testSums[T number](t *testing.T, d Device) {
	for _, row := range []struct {
		name           string
		out, a, b      []T
		so, sa, sb     uint64
		count          uint64
		want           []T
		outIsA, outIsB bool
	}{
		{name: "side by side", out: []T{9, 9, 9, 9}, a: []T{1, 2, 3}, b: []T{10, 20, 30}, so: 1, sa: 1, sb: 1, count: 3,
			want: []T{11, 22, 33, 9}},
		{name: "a scalar first", out: []T{9, 9, 9, 9}, a: []T{1}, b: []T{10, 20, 30}, so: 1, sa: 0, sb: 1, count: 3,
			want: []T{11, 21, 31, 9}},
		{name: "a scalar second", out: []T{9, 9, 9, 9}, a: []T{10, 20, 30}, b: []T{1}, so: 1, sa: 1, sb: 0, count: 3,
			want: []T{11, 21, 31, 9}},
		{name: "two scalars", out: []T{9, 9, 9}, a: []T{4}, b: []T{1}, so: 1, sa: 0, sb: 0, count: 2,
			want: []T{5, 5, 9}},
		{name: "columns", out: []T{9, 9, 9, 9, 9}, a: []T{1, 0, 2, 0}, b: []T{10, 20}, so: 3, sa: 2, sb: 1, count: 2,
			want: []T{11, 9, 9, 22, 9}},
		{name: "onto the first", a: []T{1, 2, 3}, b: []T{10, 20, 30}, so: 1, sa: 1, sb: 1, count: 3,
			want: []T{11, 22, 33}, outIsA: true},
		{name: "onto the second", a: []T{1, 2, 3}, b: []T{10, 20, 30}, so: 1, sa: 1, sb: 1, count: 3,
			want: []T{11, 22, 33}, outIsB: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, b, out := put(t, d, row.a), put(t, d, row.b), put(t, d, row.out)
			if row.outIsA {
				out = a
			}
			if row.outIsB {
				out = b
			}
			require.NoError(t, d.Add(gpu.Add{DType: typeOf[T](), Count: row.count,
				Out: gpu.Vector{Addr: out, Step: row.so}, A: gpu.Vector{Addr: a, Step: row.sa},
				B: gpu.Vector{Addr: b, Step: row.sb}}))
			require.Equal(t, row.want, get[T](t, d, out, len(row.want)))
		})
	}
}

// testNotFinite puts one NaN or infinity into an operand and expects it in every product with it, even with 0.
func testNotFinite[T float32 | float64](t *testing.T, d Device) {
	const m, n, k = 3, 5, 4
	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for variant := range 8 {
			t.Run(fmt.Sprintf("%v %03b", odd, variant), func(t *testing.T) {
				g := gpu.Gemm{M: m, N: n, K: k, TransA: variant&1 != 0, TransB: variant&2 != 0}
				a, b := make([]T, m*k), make([]T, k*n) // zeros
				if variant&4 != 0 {
					a[5] = T(odd)
				} else {
					b[7] = T(odd)
				}
				want, got := naive(g, a, b), multiply(t, d, g, a, b)
				nan := 0
				for i := range want {
					require.Equal(t, want[i] != want[i], got[i] != got[i], "element %d: %v, not %v", i, got[i], want[i])
					if want[i] != want[i] {
						nan++
					}
				}
				require.Positive(t, nan)
			})
		}
	}
	inf := T(math.Inf(1))
	out := put(t, d, []T{0, 0, 0})
	require.NoError(t, d.Add(gpu.Add{DType: typeOf[T](), Count: 3, Out: gpu.Vector{Addr: out, Step: 1},
		A: gpu.Vector{Addr: put(t, d, []T{inf, inf, T(math.NaN())}), Step: 1},
		B: gpu.Vector{Addr: put(t, d, []T{1, -inf, 1}), Step: 1}}))
	got := get[T](t, d, out, 3)
	require.Equal(t, inf, got[0])
	require.True(t, got[1] != got[1] && got[2] != got[2], "%v", got)
}

func testWrap(t *testing.T, d Device) {
	require.Equal(t, []int32{math.MinInt32}, multiply(t, d, gpu.Gemm{M: 1, N: 1, K: 2}, []int32{math.MaxInt32, 1},
		[]int32{1, 1}))
	require.Equal(t, []int32{1}, multiply(t, d, gpu.Gemm{M: 1, N: 1, K: 1}, []int32{math.MaxInt32},
		[]int32{math.MaxInt32}))
	a := put(t, d, []int32{math.MaxInt32})
	require.NoError(t, d.Add(gpu.Add{DType: gpu.Int32, Count: 1, Out: gpu.Vector{Addr: a, Step: 1},
		A: gpu.Vector{Addr: a}, B: gpu.Vector{Addr: a}}))
	require.Equal(t, []int32{-2}, get[int32](t, d, a, 1))
}

func testBadArguments(t *testing.T, d Device) {
	addr := put(t, d, slices.Repeat([]float64{3}, 8))
	fine := gpu.Vector{Addr: addr, Step: 1}
	huge := uint64(1) << 32
	for name, call := range map[string]func() error{
		"no type":          func() error { return d.Gemm(gpu.Gemm{M: 1, N: 1, K: 1, A: addr, B: addr, C: addr}) },
		"no type in a sum": func() error { return d.Add(gpu.Add{DType: 9, Count: 1, Out: fine, A: fine, B: fine}) },
		"beyond 64 bits": func() error {
			return d.Gemm(gpu.Gemm{DType: gpu.Float32, M: huge, N: huge, K: 1, A: addr, B: addr, C: addr})
		},
		"beyond 63 bits": func() error {
			return d.Gemm(gpu.Gemm{DType: gpu.Float64, M: huge, N: 1, K: 1 << 28, A: addr, B: addr, C: addr})
		},
		"a sum beyond": func() error {
			return d.Add(gpu.Add{DType: gpu.Float32, Count: 1 << 62, Out: fine, A: fine,
				B: fine})
		},
		"steps beyond": func() error {
			return d.Add(gpu.Add{DType: gpu.Float32, Count: 4, Out: fine, A: gpu.Vector{Addr: addr, Step: 1 << 60},
				B: fine})
		},
		"a result of step 0": func() error {
			return d.Add(gpu.Add{DType: gpu.Float32, Count: 2, Out: gpu.Vector{Addr: addr}, A: fine, B: fine})
		},
		"address 0": func() error { return d.Gemm(gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1, A: addr, B: addr}) },
		"an odd address": func() error {
			return d.Gemm(gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1, A: addr + 1, B: addr, C: addr})
		},
		"an address of half": func() error {
			return d.Add(gpu.Add{DType: gpu.Float64, Count: 1, Out: gpu.Vector{Addr: addr + 4, Step: 1},
				A: fine, B: fine})
		},
		"zeros to an odd one": func() error { return d.Gemm(gpu.Gemm{DType: gpu.Float64, M: 1, N: 1, C: addr + 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			err := call()
			require.Error(t, err)
			require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)
			require.Equal(t, slices.Repeat([]float64{3}, 8), get[float64](t, d, addr, 8))
		})
	}
}

func testConcurrent(t *testing.T, d Device) {
	g := gpu.Gemm{DType: gpu.Float32, M: 40, N: 30, K: 20}
	a, b := smallIntegers[float32](800), smallIntegers[float32](600)
	g.A, g.B = put(t, d, a), put(t, d, b)
	results := make([]uint64, 8)
	for i := range results {
		results[i] = put(t, d, make([]float32, 1200))
	}
	var wait sync.WaitGroup
	errs := make([]error, len(results))
	for i := range results {
		wait.Go(func() {
			own := g
			own.C = results[i]
			errs[i] = d.Gemm(own)
		})
	}
	wait.Wait()
	for i, addr := range results {
		require.NoError(t, errs[i])
		require.Equal(t, naive(g, a, b), get[float32](t, d, addr, 1200))
	}
}
