//go:build cgo

package nvml_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/nvml"
	"gpuconf/tests_go/machine/fakenvml"
)

func init() {
	jobs["two"] = func() any {
		first, err := nvml.Open()
		second, err2 := nvml.Open()
		closed := first.Close()
		cards, err3 := second.Cards()
		return []string{toFailed(err).Text, toFailed(err2).Text, toFailed(closed).Text, toFailed(err3).Text,
			cards[0].Name}
	}
	jobs["retry"] = func() any {
		_, before := nvml.Open()
		description := os.Getenv("FAKE_NVML")
		text, _ := os.ReadFile(description)
		_ = os.WriteFile(description, []byte(strings.Split(string(text), "fail")[0]), 0o600)
		after := surveyHere()
		again := surveyHere()
		return []survey{{Open: toFailed(before)}, after, again}
	}
	jobs["crowd"] = func() any {
		var mu sync.Mutex
		seen := map[string]int{}
		var crowd sync.WaitGroup
		for range 8 {
			crowd.Go(func() {
				for range 20 {
					s := surveyHere()
					mu.Lock()
					seen[all(s)+s.Cards[0].Card.Name]++
					mu.Unlock()
				}
			})
		}
		crowd.Wait()
		return seen
	}
}

func TestAMonitorOutlivesAnother(t *testing.T) {
	got := runJob[[]string](t, "two", "LD_LIBRARY_PATH="+fakenvml.Build(t), "FAKE_NVML="+fakenvml.Describe(t, oneCard))
	require.Equal(t, []string{"", "", "", "", "NVIDIA H100 80GB HBM3"}, got)
}

func TestOpenWorksAfterAFailureAndAfterAClose(t *testing.T) {
	machine := fakenvml.Describe(t, oneCard+"fail nvmlInit_v2 9\n")
	got := runJob[[]survey](t, "retry", "LD_LIBRARY_PATH="+fakenvml.Build(t), "FAKE_NVML="+machine)
	require.Equal(t, "UNAVAILABLE", got[0].Open.Kind)
	require.Equal(t, failed{}, got[1].Open)
	require.Len(t, got[1].Cards, 1)
	require.Equal(t, got[1], got[2])
}

// TestManyOpenAndCloseAtOnce is for the race detector: go-nvml keeps its state in variables.
func TestManyOpenAndCloseAtOnce(t *testing.T) {
	got := runJob[map[string]int](t, "crowd", "LD_LIBRARY_PATH="+fakenvml.Build(t),
		"FAKE_NVML="+fakenvml.Describe(t, divided))
	require.Equal(t, map[string]int{"NVIDIA A100-SXM4-40GB": 160}, got)
}
