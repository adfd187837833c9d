package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"gpuconf/gocore/tf/config"
	"gpuconf/gocore/tf/graph"
)

// BenchmarkProduct multiplies two square matrices: by gonum directly, as one operation on the CPU, and on a simulated
// GPU.
func BenchmarkProduct(b *testing.B) {
	for _, n := range []int{2, 128, 512} {
		numbers := make([]float32, n*n)
		for i := range numbers {
			numbers[i] = rand.Float32()
		}
		b.Run(fmt.Sprintf("gonum/%d", n), func(b *testing.B) {
			for b.Loop() {
				product := make([]float32, n*n)
				gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, numbers, n, numbers, n,
					0, product, n)
			}
		})
		for _, device := range []string{"CPU:0", "GPU:0"} {
			b.Run(fmt.Sprintf("%s/%d", device, n), func(b *testing.B) {
				d := devices(b, newMachine(b, "T4", config.Options{AllowGrowth: true}), 1, 1)
				x := constant(b, d, at(device), float32s(graph.Shape{int64(n), int64(n)}, numbers...))
				for b.Loop() {
					product, err := d.Execute(graph.Call{Op: graph.MatMul, Inputs: []*graph.Tensor{x, x},
						Device: at(device)})
					if err != nil {
						b.Fatal(err)
					}
					if err := product.Tensor.Release(); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, x.Release())
			})
		}
	}
}
