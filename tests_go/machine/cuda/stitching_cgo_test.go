//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/pool/stitching"
)

// Blocks keep all their bytes while memory is moved beside them, through the driver's own functions.
func TestStitchingOnADriver(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	configure(t, nil)
	driver := open(t)
	require.Greater(t, stitching.Run(t, driver, 1, 300), uint64(5))
}
