package gpu_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
)

// TestResultsAreCUDAs compares names and numbers with CUDA's cuda.h.
func TestResultsAreCUDAs(t *testing.T) {
	for result, want := range map[gpu.Result]string{
		gpu.ErrorInvalidValue:         "CUDA_ERROR_INVALID_VALUE (1)",
		gpu.ErrorOutOfMemory:          "CUDA_ERROR_OUT_OF_MEMORY (2)",
		gpu.ErrorNotInitialized:       "CUDA_ERROR_NOT_INITIALIZED (3)",
		gpu.ErrorDeinitialized:        "CUDA_ERROR_DEINITIALIZED (4)",
		gpu.ErrorNoDevice:             "CUDA_ERROR_NO_DEVICE (100)",
		gpu.ErrorInvalidDevice:        "CUDA_ERROR_INVALID_DEVICE (101)",
		gpu.ErrorInvalidContext:       "CUDA_ERROR_INVALID_CONTEXT (201)",
		gpu.ErrorAlreadyMapped:        "CUDA_ERROR_ALREADY_MAPPED (208)",
		gpu.ErrorNotMapped:            "CUDA_ERROR_NOT_MAPPED (211)",
		gpu.ErrorInvalidHandle:        "CUDA_ERROR_INVALID_HANDLE (400)",
		gpu.ErrorNotReady:             "CUDA_ERROR_NOT_READY (600)",
		gpu.ErrorIllegalAddress:       "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
		gpu.ErrorNotPermitted:         "CUDA_ERROR_NOT_PERMITTED (800)",
		gpu.ErrorNotSupported:         "CUDA_ERROR_NOT_SUPPORTED (801)",
		gpu.ErrorSystemNotReady:       "CUDA_ERROR_SYSTEM_NOT_READY (802)",
		gpu.ErrorSystemDriverMismatch: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)",
		gpu.ErrorUnknown:              "CUDA_ERROR_UNKNOWN (999)",
	} {
		require.EqualError(t, result, want)
	}
}

func TestAResultWithoutANameKeepsItsNumber(t *testing.T) {
	require.EqualError(t, gpu.Result(555), "CUDA_ERROR (555)")
	require.EqualError(t, gpu.Result(-1), "CUDA_ERROR (-1)")
}

func TestAResultIsFoundInAChain(t *testing.T) {
	err := fmt.Errorf("map 64 MiB: %w", fmt.Errorf("cuMemCreate: %w", gpu.ErrorOutOfMemory))
	require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
	require.NotErrorIs(t, err, gpu.ErrorInvalidValue)
	var result gpu.Result
	require.True(t, errors.As(err, &result))
	require.Equal(t, gpu.ErrorOutOfMemory, result)
}
