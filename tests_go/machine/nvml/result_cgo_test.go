//go:build cgo

package nvml_test

import (
	"fmt"
	"testing"

	upstream "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/nvml"
)

// TestResultsAreNVMLs compares names with go-nvml's.
func TestResultsAreNVMLs(t *testing.T) {
	for _, result := range []upstream.Return{
		upstream.ERROR_UNINITIALIZED, upstream.ERROR_INVALID_ARGUMENT, upstream.ERROR_NOT_SUPPORTED,
		upstream.ERROR_NO_PERMISSION, upstream.ERROR_NOT_FOUND, upstream.ERROR_DRIVER_NOT_LOADED,
		upstream.ERROR_TIMEOUT, upstream.ERROR_LIBRARY_NOT_FOUND, upstream.ERROR_FUNCTION_NOT_FOUND,
		upstream.ERROR_GPU_IS_LOST,
		upstream.ERROR_RESET_REQUIRED, upstream.ERROR_OPERATING_SYSTEM, upstream.ERROR_LIB_RM_VERSION_MISMATCH,
		upstream.ERROR_MEMORY, upstream.ERROR_INSUFFICIENT_RESOURCES, upstream.ERROR_UNKNOWN,
	} {
		// Without a loaded library, go-nvml supplies the name itself.
		text := fmt.Sprintf("NVML_%s (%d)", upstream.ErrorString(result), int(result))
		require.EqualError(t, nvml.Result(result), text)
	}
}

func TestAResultWithoutANameKeepsItsNumber(t *testing.T) {
	require.EqualError(t, nvml.Result(777), "NVML_ERROR (777)")
}
