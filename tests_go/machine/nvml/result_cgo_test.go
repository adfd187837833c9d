//go:build cgo

package nvml_test

import (
	"fmt"
	"testing"

	upstream "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/nvml"
)

// TestResultsAreNVMLs compares names and numbers with NVML's header.
func TestResultsAreNVMLs(t *testing.T) {
	for ours, theirs := range map[nvml.Result]upstream.Return{
		nvml.ErrorUninitialized:         upstream.ERROR_UNINITIALIZED,
		nvml.ErrorInvalidArgument:       upstream.ERROR_INVALID_ARGUMENT,
		nvml.ErrorNotSupported:          upstream.ERROR_NOT_SUPPORTED,
		nvml.ErrorNoPermission:          upstream.ERROR_NO_PERMISSION,
		nvml.ErrorNotFound:              upstream.ERROR_NOT_FOUND,
		nvml.ErrorDriverNotLoaded:       upstream.ERROR_DRIVER_NOT_LOADED,
		nvml.ErrorTimeout:               upstream.ERROR_TIMEOUT,
		nvml.ErrorLibraryNotFound:       upstream.ERROR_LIBRARY_NOT_FOUND,
		nvml.ErrorFunctionNotFound:      upstream.ERROR_FUNCTION_NOT_FOUND,
		nvml.ErrorGPUIsLost:             upstream.ERROR_GPU_IS_LOST,
		nvml.ErrorResetRequired:         upstream.ERROR_RESET_REQUIRED,
		nvml.ErrorOperatingSystem:       upstream.ERROR_OPERATING_SYSTEM,
		nvml.ErrorLibRMVersionMismatch:  upstream.ERROR_LIB_RM_VERSION_MISMATCH,
		nvml.ErrorMemory:                upstream.ERROR_MEMORY,
		nvml.ErrorInsufficientResources: upstream.ERROR_INSUFFICIENT_RESOURCES,
		nvml.ErrorUnknown:               upstream.ERROR_UNKNOWN,
	} {
		// Without a loaded library, go-nvml supplies the name itself.
		require.EqualError(t, ours, fmt.Sprintf("NVML_%s (%d)", upstream.ErrorString(theirs), int(theirs)))
	}
	require.Equal(t, upstream.ERROR_NOT_READY, upstream.Return(nvml.ErrorNotReady))
	require.Equal(t, upstream.ERROR_GPU_NOT_FOUND, upstream.Return(nvml.ErrorGPUNotFound))
}

func TestAResultWithoutANameKeepsItsNumber(t *testing.T) {
	require.EqualError(t, nvml.Result(777), "NVML_ERROR (777)")
}
