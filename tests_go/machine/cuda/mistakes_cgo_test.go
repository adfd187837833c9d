//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/machine/drivertest"
)

// Mistakes that a driver need not survive do not reach it.
func TestMistakes(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_GPUS": "3", "FAKECUDA_MEMORY": "67108864"})
	drivertest.TestMistakes(t, cuda.Open, func(_ gpu.Driver, forwarded bool) any {
		if forwarded {
			return fake.Live()
		}
		return []any{fake.Live(), fake.Count("*")}
	})
}
