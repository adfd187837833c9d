//go:build cgo

package models_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
)

// TestCatalogueAgreesWithNVML compares the catalogue with the cards of NVIDIA's own mock servers: dgxa100, dgxh100,
// dgxh200 and dgxb200 contain these cards.
func TestCatalogueAgreesWithNVML(t *testing.T) {
	for _, row := range []struct {
		name  string
		mock  gpus.Config
		model string
		// product is the driver's name of the card, where the mock uses an invented one.
		product, why string
	}{
		{"A100 40GB", gpus.A100_SXM4_40GB, "A100-40GB", "NVIDIA A100-SXM4-40GB", "the mock puts Mock before it"},
		{"A100 80GB", gpus.A100_SXM4_80GB, "A100-80GB", "", ""},
		{"A30", gpus.A30_PCIE_24GB, "A30", "NVIDIA A30", "cards report no form factor and no size"},
		{"H100", gpus.H100_SXM5_80GB, "H100-80GB", "", ""},
		{"H200", gpus.H200_SXM5_141GB, "H200-141GB", "NVIDIA H200", "cards report no size"},
		{"B200", gpus.B200_SXM5_180GB, "B200-180GB", "NVIDIA B200", "cards report no size"},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := attempt.Get(models.ParseSpec(row.model))
			model := spec.Cards[0].Model
			require.InDelta(t, row.mock.MemoryMB<<20, model.MemoryBytes, 2<<30, "a card that was asked has less")
			require.Equal(t, row.mock.CudaMajor, model.ComputeMajor)
			require.Equal(t, row.mock.CudaMinor, model.ComputeMinor)
			if row.why == "" {
				require.Equal(t, row.mock.Name, model.Product)
			} else {
				require.Equal(t, row.product, model.Product)
				require.NotEqual(t, row.mock.Name, model.Product, "no difference any more: drop the reason (%s)",
					row.why)
			}
			slice := attempt.Get(models.ParseSpec(row.model + ":mig-container"))
			smallest := row.mock.MIGProfiles.GpuInstanceProfiles[nvml.GPU_INSTANCE_PROFILE_1_SLICE]
			instance := slice.Cards[0].Describe(0, 0)
			require.Equal(t, smallest.MemorySizeMB<<20, instance.TotalBytes)
			require.Equal(t, int(smallest.MultiprocessorCount), instance.Multiprocessors)
			for _, profile := range row.mock.MIGProfiles.GpuInstanceProfiles {
				require.LessOrEqual(t, int(profile.MultiprocessorCount), model.Multiprocessors,
					"a slice has more than the card")
			}
		})
	}
}
