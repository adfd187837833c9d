//go:build cgo

package process_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
	"gpuconf/tests_go/must"
)

func gpus(t require.TestingT, m *devmgr.Manager) (count int) {
	require.NoError(t, m.Inspect(func(s *config.State) error {
		count = len(s.Physical()) - 1
		return nil
	}))
	return count
}

func TestMachineIsChosenOnce(t *testing.T) {
	for _, row := range []struct {
		name  string
		asked string
		env   config.Env
		spec  string
		gpus  int
	}{
		{"nothing asked: a machine without GPUs", "", nil, "", 0},
		{"by a call", " 2 x t4 ", nil, "2xT4", 2},
		{"by the environment", "", config.Env{"GPUCONF_SIMULATE": "4xT4:8gb"}, "4xT4:8GiB", 4},
		{"an empty variable is none", "", config.Env{"GPUCONF_SIMULATE": ""}, "", 0},
		{"the call wins", "2xT4", config.Env{"GPUCONF_SIMULATE": "4xT4"}, "2xT4", 2},
		{"filtered", "4xT4", config.Env{"CUDA_VISIBLE_DEVICES": "3,1"}, "4xT4", 2},
		{"all hidden", "4xT4", config.Env{"CUDA_VISIBLE_DEVICES": ""}, "4xT4", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			var r process.State
			must.OK2(r.Simulate(row.asked))(t)
			m, spec := must.OK2(r.Enumerate(row.env))(t)
			require.Equal(t, row.spec, spec)
			require.Equal(t, row.gpus, gpus(t, m))
			same, spec := must.OK2(r.Enumerate(config.Env{"GPUCONF_SIMULATE": "8xT4"}))(t)
			require.Same(t, m, same, "listed devices stay")
			require.Equal(t, row.spec, spec)
			require.NoError(t, r.Reset())
			require.True(t, m.Closed())
		})
	}
}

// The error for a request for a GPU contains the machine's reason.
func TestWhyNoGPUIsThere(t *testing.T) {
	for _, row := range []struct {
		name string
		env  config.Env
		want string
	}{
		{"an index too high", config.Env{"CUDA_VISIBLE_DEVICES": "7"},
			`no logical GPU: CUDA_VISIBLE_DEVICES="7": entry 1 ("7") is out of range: this machine has 2 GPUs; it is ignored, so no GPU is visible. Unset`},
		{"hidden on purpose", config.Env{"CUDA_VISIBLE_DEVICES": "-1"},
			`no logical GPU: CUDA_VISIBLE_DEVICES="-1" shows none. Unset`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var r process.State
			must.OK2(r.Simulate("2xT4"))(t)
			m, _ := must.OK2(r.Enumerate(row.env))(t)
			must.OK(m.Initialize(row.env, "", nil))(t)
			require.ErrorContains(t, must.Err(m.Allocate(0, 1, 0)), row.want)
			require.NoError(t, r.Reset())
		})
	}
}

func TestRuntimeLifeCycle(t *testing.T) {
	var r process.State
	must.Fail(t, status.FailedPrecondition, must.Err(r.Manager()))
	require.NoError(t, r.Reset(), "there is nothing to give up")
	require.Zero(t, r.Generation())

	before, now := must.OK2(r.Simulate("T4:1GiB"))(t)
	require.Equal(t, []string{"", "T4:1GiB"}, []string{before, now})
	must.Fail(t, status.FailedPrecondition, must.Err(r.Manager()))
	m, _ := must.OK2(r.Enumerate(nil))(t)
	require.Same(t, m, must.OK(r.Manager())(t))
	must.OK(m.Initialize(nil, "", nil))(t)
	block := must.OK(m.Allocate(0, 1, 0))(t)

	must.Fail(t, status.FailedPrecondition, r.Reset())
	must.Fail(t, status.FailedPrecondition, must.Err2(r.Simulate("H100-80GB")))
	require.Same(t, m, must.OK(r.Manager())(t), "a refusal changes nothing")
	require.Zero(t, r.Generation())
	require.NoError(t, m.Free(block.Addr))

	require.NoError(t, r.Reset())
	require.EqualValues(t, 1, r.Generation())
	require.Empty(t, r.DrainNotices(), "of devices that are gone")
	other, spec := must.OK2(r.Enumerate(nil))(t)
	require.Equal(t, "T4:1GiB", spec, "a reset keeps the choice")
	require.NotSame(t, m, other)
	must.Fail(t, status.FailedPrecondition, must.Err(m.Allocate(0, 1, 0)), "this runtime was reset")

	before, now = must.OK2(r.Simulate(""))(t)
	require.Equal(t, []string{"T4:1GiB", ""}, []string{before, now})
	require.EqualValues(t, 2, r.Generation())
}

// A specification that cannot be parsed leaves the runtime unchanged; the call can be repeated.
func TestEnumerateFailures(t *testing.T) {
	var r process.State
	_, _, err := r.Simulate("nonsense")
	must.Fail(t, status.InvalidArgument, err)
	for _, env := range []config.Env{
		{"GPUCONF_SIMULATE": "65xT4"},
		{"GPUCONF_SIMULATE": "T4", "TF_ENABLED_DEVICE_TYPES": "GPU"},
	} {
		_, _, err = r.Enumerate(env)
		require.Error(t, err)
		require.NotEqual(t, status.Unknown, status.CodeOf(err))
		must.Fail(t, status.FailedPrecondition, must.Err(r.Manager()))
		require.Empty(t, r.DrainNotices())
	}
	_, spec := must.OK2(r.Enumerate(config.Env{"GPUCONF_SIMULATE": "T4"}))(t)
	require.Equal(t, "T4", spec)
	require.NoError(t, r.Reset())
}

func TestEveryoneEnumeratesTheSameDevices(t *testing.T) {
	var r process.State
	var done sync.WaitGroup
	managers := make([]*devmgr.Manager, 16)
	for i := range managers {
		done.Go(func() {
			env := config.Env{"GPUCONF_SIMULATE": fmt.Sprintf("%dxT4", 1+i%4)}
			m, spec, err := r.Enumerate(env)
			if want := map[string]int{"T4": 1, "2xT4": 2, "3xT4": 3, "4xT4": 4}[spec]; err == nil &&
				gpus(t, m) != want {
				err = fmt.Errorf("%s has %d GPUs", spec, gpus(t, m))
			}
			if err != nil {
				t.Error(err)
			}
			managers[i] = m
		})
	}
	done.Wait()
	for _, m := range managers {
		require.Same(t, managers[0], m)
	}
	require.NoError(t, r.Reset())
	require.EqualValues(t, 1, r.Generation())
}

// Concurrent listing, initialization, allocation, queries and resets. A call to a replaced Manager returns an error
// that says so; nothing else fails.
func TestResetBesideEnumerate(t *testing.T) {
	var r process.State
	must.OK2(r.Simulate("2xT4:1GiB"))(t)
	var done sync.WaitGroup
	var served, resets atomic.Int32
	var over atomic.Bool
	fine := func(err error) bool {
		if err != nil && status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("unexpected: %v", err)
		}
		return err == nil
	}
	for range 4 {
		done.Go(func() {
			for !over.Load() {
				m, _, err := r.Enumerate(nil)
				if !fine(err) || !fine(must.Err(m.Initialize(nil, "", nil))) {
					continue
				}
				block, err := m.Allocate(1, 100, 0)
				if fine(err) && fine(m.Free(block.Addr)) {
					served.Add(1)
				}
				r.DrainNotices()
				fine(must.Err(r.Manager()))
			}
		})
	}
	done.Go(func() {
		defer over.Store(true)
		for range 100 {
			before := served.Load()
			if fine(r.Reset()) {
				resets.Add(1)
			}
			fine(must.Err2(r.Simulate("2xT4:1GiB")))
			for begin := time.Now(); served.Load() == before && time.Since(begin) < 20*time.Second; {
				runtime.Gosched() // until another thread has used the new devices
			}
		}
	})
	done.Wait()
	require.GreaterOrEqual(t, served.Load(), int32(100))
	require.Positive(t, resets.Load())
	require.NoError(t, r.Reset())
}

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
