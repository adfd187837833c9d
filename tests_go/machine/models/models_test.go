package models_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
)

func TestCatalogueNamesAreUnique(t *testing.T) {
	owner := map[string]string{}
	for _, model := range models.Models() {
		for _, name := range append([]string{model.Name, model.Product}, model.Aliases...) {
			key := strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(name))
			require.NotContains(t, owner, key, "%s and %s share a name", model.Name, owner[key])
			owner[key] = model.Name
			require.Equal(t, model, attempt.Get(models.ParseSpec(name)).Cards[0].Model)
		}
	}
}

func TestCatalogueIsPlausible(t *testing.T) {
	for _, model := range models.Models() {
		require.NotEmpty(t, model.Product)
		require.Zero(t, model.MemoryBytes%(1<<10), model.Name)
		require.GreaterOrEqual(t, 10*model.ComputeMajor+model.ComputeMinor, 35, model.Name)
		require.Positive(t, model.Multiprocessors, model.Name)
		require.Positive(t, model.ClockMHz, model.Name)
		require.Negative(t, model.GreatestPriority, model.Name)
	}
}

func TestCatalogueIsACopy(t *testing.T) {
	all := models.Models()
	all[0].Name = "changed"
	all[0].Aliases[0] = "changed"
	require.NotEqual(t, "changed", models.Models()[0].Name)
	require.NotEqual(t, "changed", models.Models()[0].Aliases[0])
}

func TestDevicesOfAMachine(t *testing.T) {
	spec := attempt.Get(models.ParseSpec("H100-80GB,T4:8GiB,K40"))
	devices := spec.Devices()
	require.Len(t, devices, 3)

	h100 := devices[0]
	require.Equal(t, "NVIDIA H100 80GB HBM3", h100.Name)
	require.Equal(t, uint64(81081)<<20, h100.TotalBytes)
	require.Equal(t, []int{9, 0, 132}, []int{h100.ComputeMajor, h100.ComputeMinor, h100.Multiprocessors})
	require.Equal(t, []int{0, -5}, []int{h100.LeastPriority, h100.GreatestPriority})
	require.Equal(t, "0000:17:00.0", h100.PCIBusID)

	require.Equal(t, uint64(8)<<30, devices[1].TotalBytes)
	require.Equal(t, "Tesla T4", devices[1].Name)
	require.Equal(t, []int{3, 5}, []int{devices[2].ComputeMajor, devices[2].ComputeMinor})
}

func TestIdentitiesAreThoseOfTheDevices(t *testing.T) {
	spec := attempt.Get(models.ParseSpec("64xT4:1MiB"))
	devices := spec.Devices()
	uuids := map[string]bool{}
	for i, identity := range spec.Identities() {
		require.Equal(t, devices[i].UUID, identity.UUID)
		require.Equal(t, devices[i].PCIBusID, identity.PCIBusID)
		uuids[identity.UUID] = true
	}
	require.Len(t, uuids, 64)
}

// TestFasterCardsAreKnownAsFaster checks a few undisputed comparisons.
func TestFasterCardsAreKnownAsFaster(t *testing.T) {
	spec := attempt.Get(models.ParseSpec("GB200,B200,H100,A100-40GB,V100-16GB,P100,T4,K40,K20"))
	identities := spec.Identities()
	for i := 2; i < len(identities); i++ {
		require.Greater(t, identities[i-1].Speed, identities[i].Speed, spec.Cards[i].Model.Name)
	}
}

func TestKindsOfMemory(t *testing.T) {
	spec := attempt.Get(models.ParseSpec("H100,GB10,Thor,Orin:8GiB,GH200,GB200"))
	var kinds []string
	for _, device := range spec.Devices() {
		kinds = append(kinds, device.MemoryKind.String())
	}
	require.Equal(t, []string{"dedicated", "unified", "unified", "unified", "coherent", "coherent"}, kinds)
}

// TestUUIDsNeverChange: leases of other processes name cards by them.
func TestUUIDsNeverChange(t *testing.T) {
	for _, text := range []string{"3xH100-80GB", "T4:8GiB", "64xGH200-144GB:16TiB", "GB10,K20:256B"} {
		spec := attempt.Get(models.ParseSpec(text))
		for slot, device := range spec.Devices() {
			card := spec.Cards[slot]
			sum := sha256.Sum256(fmt.Appendf(nil, "gpuconf simulated GPU %d %s %d", slot, card.Model.Name,
				card.MemoryBytes))
			require.Equal(t, fmt.Sprintf("GPU-%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
				device.UUID)
			require.Equal(t, fmt.Sprintf("0000:%02x:00.0", 0x17+3*slot), device.PCIBusID)
		}
	}
}
