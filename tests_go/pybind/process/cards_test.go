//go:build cgo

package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
	"gpuconf/tests_go/must"
)

// A survey lists every card: CUDA_VISIBLE_DEVICES is for the process's own use.
func TestSurveyOfASimulatedMachine(t *testing.T) {
	var state process.State
	survey := must.OK(state.Survey(config.Env{"GPUCONF_SIMULATE": "2xT4,GB10", "CUDA_VISIBLE_DEVICES": "0"}))(t)
	require.Equal(t, "2xT4,GB10", *survey.Simulated)
	require.Len(t, survey.Cards, 3)
	require.EqualValues(t, 14912<<20, *survey.Cards[1].Memory.Total)
	require.Nil(t, survey.Cards[1].Memory.Used, "only the processes know")
	require.Equal(t, "simulation", *survey.Cards[1].Memory.Source)
}

// In a container with one instance of a card, the card's own memory is unknown, and the survey says why.
func TestSurveyOfAnInstance(t *testing.T) {
	var state process.State
	survey := must.OK(state.Survey(config.Env{"GPUCONF_SIMULATE": "A30:mig-container"}))(t)
	require.Len(t, survey.Cards, 1)
	card := survey.Cards[0]
	require.Equal(t, "on", card.MIG)
	require.Equal(t, wire.CardMemory{Kind: "dedicated"}, card.Memory)
	require.Len(t, card.Errors, 1)
	require.Contains(t, card.Errors[0], card.UUID+": NVML_ERROR_NO_PERMISSION")
	require.Len(t, card.Instances, 1)
	require.NotEqual(t, card.UUID, card.Instances[0].UUID)
	require.EqualValues(t, 5836<<20, *card.Instances[0].Memory.Total)
}

func TestASurveyOfTheMachineThatWasAskedFor(t *testing.T) {
	var state process.State
	must.OK2(state.Simulate("L4"))(t)
	survey := must.OK(state.Survey(config.Env{"GPUCONF_SIMULATE": "2xT4"}))(t)
	require.Equal(t, "L4", *survey.Simulated)
	_, err := new(process.State).Survey(config.Env{"GPUCONF_SIMULATE": "nonsense"})
	must.Fail(t, status.InvalidArgument, err)
}
