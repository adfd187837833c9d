package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

// setter is one drawn call of a setter, which can be repeated.
type setter struct {
	name string
	call func(*config.State) error
}

var anySetter = rapid.Custom(func(t *rapid.T) setter {
	anyNumber := rapid.Ptr(rapid.OneOf(rapid.Int64Range(-1, 3), rapid.Just[int64](1<<40)), true)
	anyBool := rapid.Ptr(rapid.Bool(), true)
	device := anyDevice.Draw(t, "device")
	switch name := rapid.SampledFrom([]string{
		"visible", "growth", "logical", "soft", "log", "jit", "intra", "inter", "policy", "sync", "options",
	}).Draw(t, "setter"); name {
	case "visible":
		devices, deviceType := rapid.SliceOfN(anyDevice, 0, 3).Draw(t, "devices"), anyType.Draw(t, "type")
		return setter{name, func(s *config.State) error { return s.SetVisible(devices, deviceType) }}
	case "growth":
		value := rapid.Int64Range(0, 2).Draw(t, "growth")
		return setter{name, func(s *config.State) error { return s.SetGrowth(device, value, "") }}
	case "logical":
		configs := anyConfigs.Draw(t, "configs")
		return setter{name, func(s *config.State) error { return s.SetLogicalConfigs(device, configs) }}
	case "soft":
		value := anyBool.Draw(t, "enabled")
		return setter{name, func(s *config.State) error { s.SetSoftPlacement(value); return nil }}
	case "log":
		value := anyBool.Draw(t, "enabled")
		return setter{name, func(s *config.State) error { s.SetLogPlacement(value); return nil }}
	case "jit":
		value := rapid.Bool().Draw(t, "enabled")
		return setter{name, func(s *config.State) error { s.SetJit(value); return nil }}
	case "intra":
		value := anyNumber.Draw(t, "threads")
		return setter{name, func(s *config.State) error { return s.SetIntraOpThreads(value) }}
	case "inter":
		value := anyNumber.Draw(t, "threads")
		return setter{name, func(s *config.State) error { return s.SetInterOpThreads(value) }}
	case "policy":
		value := rapid.Ptr(rapid.SampledFrom([]string{"silent", "warn", "explicit", "x"}), true).Draw(t, "policy")
		return setter{name, func(s *config.State) error { return s.SetDevicePolicy(value, "'x'") }}
	case "sync":
		value := anyBool.Draw(t, "enabled")
		return setter{name, func(s *config.State) error { s.SetSynchronousExecution(value); return nil }}
	default:
		options := map[string]*int64{
			rapid.SampledFrom([]string{"remapping", "min_graph_nodes"}).Draw(t, "option"): anyNumber.Draw(t, "value"),
		}
		return setter{name, func(s *config.State) error { return s.SetOptimizerOptions(options) }}
	}
})

// anySession is a state after some setters, possibly initialized.
func anySession(r *rapid.T) *session {
	s := newSession(rapid.SampledFrom([]string{"P1", "P2", "P3", "P4"}).Draw(r, "machine"))
	for _, set := range rapid.SliceOfN(anySetter, 0, 8).Draw(r, "setters") {
		_ = set.call(s.state)
	}
	if _, err := s.state.Layout(s.facts); err == nil {
		switch rapid.SampledFrom([]string{"no", "built", "initialized"}).Draw(r, "devices") {
		case "built":
			s.state.Build()
		case "initialized":
			s.state.Initialize("here")
		}
	}
	return s
}

// After a session has built devices, every setter does what it does without one, and Changed says whether one may have
// changed them.
func TestASessionLeavesTheConfigurationOpen(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newSession(rapid.SampledFrom([]string{"P1", "P2", "P3", "P4"}).Draw(r, "machine"))
		for _, set := range rapid.SliceOfN(anySetter, 0, 8).Draw(r, "before") {
			_ = set.call(s.state)
		}
		layout, err := s.state.Layout(s.facts)
		if err != nil {
			return
		}
		alone := s.state.Clone()
		s.state.Build()
		require.False(r, s.state.Changed())
		for _, set := range rapid.SliceOfN(anySetter, 1, 8).Draw(r, "after") {
			require.Equal(r, set.call(alone), set.call(s.state))
		}
		require.True(r, s.state.Initialized())
		now, err := s.state.Layout(s.facts)
		if err == nil && !now.Equal(layout) {
			require.True(r, s.state.Changed())
		}
	})
}

func TestAnErrorChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anySession(r)
		before := s.state.Clone()
		if err := anySetter.Draw(r, "setter").call(s.state); err != nil {
			require.Equal(r, before, s.state)
		}
		require.NoError(r, s.state.Check())
	})
}

func TestSettingAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anySession(r)
		set := anySetter.Draw(r, "setter")
		if set.call(s.state) != nil {
			return
		}
		s.state.Initialize("here")
		before := s.state.Clone()
		require.NoError(r, set.call(s.state), "what is stored may be set in every state")
		require.Equal(r, before, s.state)
	})
}

func TestAfterInitializationThePlanStays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anySession(r)
		s.state.Initialize("here")
		before, beforeError := s.state.Layout(s.facts)
		set := anySetter.Draw(r, "setter")
		switch err := set.call(s.state); set.name {
		case "visible", "growth", "logical", "intra", "inter":
			if err != nil && status.CodeOf(err) == status.State {
				require.Contains(r, err.Error(), "he runtime was initialized by here")
				require.Contains(r, err.Error(), "gpuconf.reset()")
			}
		default:
			require.NotEqual(r, status.State, status.CodeOf(err), "%s may be set at any time", set.name)
		}
		after, afterError := s.state.Layout(s.facts)
		require.Equal(r, before, after)
		require.Equal(r, beforeError == nil, afterError == nil)
	})
}

func TestPlanIsAFunctionOfTheState(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anySession(r)
		before := s.state.Clone()
		first, firstError := s.state.Layout(s.facts)
		second, secondError := before.Layout(s.facts)
		require.Equal(r, first, second)
		if firstError == nil {
			require.NoError(r, secondError)
		} else {
			require.EqualError(r, secondError, firstError.Error())
			require.Empty(r, first.Devices)
		}
		_ = s.state.Evaluate()
		require.Equal(r, before, s.state, "planning changes nothing")
	})
}

func TestEveryGetterThatEvaluatesFailsAlike(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anySession(r)
		want := s.state.Evaluate()
		_, soft := s.state.SoftPlacement(true)
		_, log := s.state.LogPlacement()
		_, jit := s.state.Jit()
		_, intra := s.state.IntraOpThreads()
		_, inter := s.state.InterOpThreads()
		_, options := s.state.OptimizerOptions()
		for _, got := range []error{soft, log, jit, intra, inter, options} {
			require.Equal(r, want, got)
		}
		if _, err := s.state.Layout(s.facts); want != nil {
			require.Equal(r, want, err, "and planning fails with it before anything else")
		}
	})
}

func TestTheStateSharesNoMemory(t *testing.T) {
	s := newSession("P3").state
	devices := []config.Arg{arg("c"), arg("g0")}
	limit, priority, ordinal, threads, enabled := 10.0, int64(0), int64(1), int64(4), false
	configs := config.LogicalConfigs{Items: []config.LogicalConfig{{MemoryLimitMiB: &limit, Priority: &priority,
		Ordinal: &ordinal}}}
	option := map[string]*int64{"remapping": &threads}
	require.NoError(t, s.SetVisible(devices, nil))
	require.NoError(t, s.SetLogicalConfigs(arg("g0"), configs))
	require.NoError(t, s.SetIntraOpThreads(&threads))
	s.SetSoftPlacement(&enabled)
	require.NoError(t, s.SetOptimizerOptions(option))
	before := everything(t, s)

	// Changing the arguments, even a list after the call (case 69 with gpuconf's answer).
	devices[1] = arg("g1")
	configs.Items[0].Priority = nil
	limit, priority, ordinal, threads, enabled = 99, 99, 99, 99, true
	option["constant_folding"] = &threads
	require.Equal(t, before, everything(t, s))

	// Changing a result.
	s.Physical()[0].Name = "changed"
	s.Visible()[0].Name = "changed"
	got := must.OK(s.LogicalConfigs(arg("g0")))(t)
	*got.Items[0].MemoryLimitMiB = 1
	got.Items[0].Ordinal = nil
	options := must.OK(s.OptimizerOptions())(t)
	options["remapping"] = 5
	require.Equal(t, before, everything(t, s))

	// Changing a clone's original.
	copied := s.Clone()
	zero := int64(0)
	require.NoError(t, s.SetVisible([]config.Arg{arg("c")}, nil))
	require.NoError(t, s.SetGrowth(arg("g1"), 1, ""))
	require.NoError(t, s.SetLogicalConfigs(arg("g0"), config.LogicalConfigs{}))
	require.NoError(t, s.SetIntraOpThreads(&zero))
	require.NoError(t, s.SetOptimizerOptions(map[string]*int64{"remapping": &zero}))
	s.SetSoftPlacement(nil)
	require.NotEqual(t, before, everything(t, s))
	require.Equal(t, before, everything(t, copied))
}

// everything formats all that getters return.
func everything(t *testing.T, s *config.State) string {
	configs := must.OK(s.LogicalConfigs(arg("g0")))(t)
	growth, set := must.OK2(s.Growth(arg("g1")))(t)
	soft := must.OK(s.SoftPlacement(true))(t)
	threads := must.OK(s.IntraOpThreads())(t)
	options := must.OK(s.OptimizerOptions())(t)
	return fmt.Sprintln(s.Physical(), s.Visible(), showConfigs(configs), growth, set, soft, threads, options)
}

// More entries than an unstable sort keeps in order by accident.
func TestEqualOrdinalsKeepTheirOrder(t *testing.T) {
	s := newSession("P2")
	var configs config.LogicalConfigs
	for i := range 40 {
		limit, ordinal := float64(i+1), int64(-(i % 2))
		configs.Items = append(configs.Items, config.LogicalConfig{MemoryLimitMiB: &limit, Ordinal: &ordinal})
	}
	require.NoError(t, s.state.SetLogicalConfigs(arg("g0"), configs))
	layout := must.OK(s.state.Layout(s.facts))(t)
	for i, device := range layout.Devices[1:] {
		want := uint64(2*i + 2) // first the odd positions, with ordinal -1
		if i >= 20 {
			want = uint64(2*(i-20) + 1)
		}
		require.Equal(t, want<<20, device.LimitBytes, device.Logical.Name)
	}
}

func TestInitializingTwiceKeepsTheFirstOrigin(t *testing.T) {
	s := newSession("P2").state
	s.Initialize("first.py:1 (device)")
	s.Initialize("second.py:2 (device)")
	err := s.SetVisible(nil, nil)
	require.EqualError(t, err, "Visible devices cannot be modified after being initialized: the runtime was "+
		"initialized by first.py:1 (device). Set visible devices before the first call that needs a device, or call "+
		"gpuconf.reset() first.")
}

func TestAnUnknownOriginIsNotMadeUp(t *testing.T) {
	s := newSession("P2").state
	s.Initialize("")
	require.EqualError(t, s.SetVisible(nil, nil), "Visible devices cannot be modified after being initialized: the "+
		"runtime is already initialized. Set visible devices before the first call that needs a device, or call "+
		"gpuconf.reset() first.")
	one := int64(1)
	require.EqualError(t, s.SetInterOpThreads(&one), "Inter op parallelism cannot be modified after initialization. "+
		"The runtime is already initialized. Set the number of threads before the first call that needs a device, or "+
		"call gpuconf.reset() first.")
}

func TestPlanningNeedsFactsAboutEveryGPU(t *testing.T) {
	s := newSession("P3")
	_, err := s.state.Layout(s.facts[:1])
	must.Fail(t, status.Internal, err)
	require.EqualError(t, err, "no device information for /physical_device:GPU:1")
}

// Ordinals need not be dense: GPUs below the minimum compute capability leave gaps.
func TestPlanNamesGPUsByTheirOrdinal(t *testing.T) {
	s := config.New([]config.PhysicalDevice{device("CPU", 0), device("GPU", 1), device("GPU", 4)})
	priority, limit := int64(7), 1.0
	require.NoError(t, s.SetVisible([]config.Arg{arg("c"), arg("g4")}, nil))
	facts := []config.GPUFacts{{Ordinal: 1}, {Ordinal: 4, LeastPriority: 0, GreatestPriority: -2}}
	layout := must.OK(s.Layout(facts))(t)
	require.Equal(t, []config.LayoutDevice{
		{Logical: config.LogicalDevice{Name: "/device:CPU:0", Type: "CPU"}, Physical: 0},
		{Logical: config.LogicalDevice{Name: "/device:GPU:0", Type: "GPU"}, Physical: 2},
	}, layout.Devices)
	require.NoError(t, s.SetLogicalConfigs(arg("g4"), config.LogicalConfigs{
		Items: []config.LogicalConfig{{MemoryLimitMiB: &limit, Priority: &priority}},
	}))
	_, err := s.Layout(facts)
	require.EqualError(t, err, "Priority 7 is outside the range of supported priorities [-2,0] for virtual device 0 "+
		"on GPU# 4")
}
