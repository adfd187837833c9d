package config_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
)

// model is TensorFlow's own state machine, transcribed: a list, two maps, and a message to the native side that is
// rebuilt each time. It is slow and simple; State must agree with it.
type model struct {
	physical    []config.PhysicalDevice
	visible     []config.PhysicalDevice
	growth      map[config.PhysicalDevice]any // nil, or an int64
	logical     map[config.PhysicalDevice]config.LogicalConfigs
	initialized bool
}

// message is what the native side receives.
type message struct {
	cpus, gpus int
	visible    []int // positions among the GPUs
	virtual    []virtualDevices
	growth     bool
}

type virtualDevices struct {
	limits               []float32
	priorities, ordinals []int64
}

// fail is an error of TensorFlow: its kind, and how its text must begin.
type fail struct {
	code status.Code
	text string
}

func (f *fail) String() string {
	if f == nil {
		return "success"
	}
	return f.code.String() + ": " + f.text
}

func value(text string) *fail  { return &fail{status.Value, text} }
func native(text string) *fail { return &fail{status.InvalidArgument, text} }
func frozen(text string) *fail { return &fail{status.State, text} }

func newModel(physical []config.PhysicalDevice) *model {
	m := &model{
		physical: physical,
		visible:  slices.Clone(physical),
		growth:   map[config.PhysicalDevice]any{},
		logical:  map[config.PhysicalDevice]config.LogicalConfigs{},
	}
	for _, d := range physical {
		if d.Type == "GPU" {
			m.growth[d] = nil
		}
	}
	return m
}

func (m *model) setVisible(devices []config.Arg, deviceType *string) *fail {
	var list []config.PhysicalDevice
	for _, d := range devices {
		if !slices.Contains(m.physical, d.Device) || deviceType != nil && d.Device.Type != *deviceType {
			return value("Unrecognized device: " + d.Repr)
		}
	}
	if deviceType != nil {
		for _, d := range m.visible {
			if d.Type != *deviceType {
				list = append(list, d)
			}
		}
	}
	for _, d := range devices {
		list = append(list, d.Device)
	}
	if slices.Equal(list, m.visible) {
		return nil
	}
	if m.initialized {
		return frozen("Visible devices cannot be modified after being initialized")
	}
	m.visible = list
	return nil
}

func (m *model) setGrowth(d config.Arg, growth any) *fail {
	if !slices.Contains(m.physical, d.Device) {
		return value("Unrecognized device: " + d.Repr)
	}
	if _, configured := m.logical[d.Device]; configured {
		return value("Cannot set memory growth on device when virtual devices configured")
	}
	if d.Device.Type != "GPU" {
		return value("Cannot set memory growth on non-GPU and non-Pluggable devices")
	}
	if _, isText := growth.(string); isText { // gpuconf's check
		return &fail{status.InvalidType, "Memory growth must be True or False"}
	}
	if m.growth[d.Device] == growth {
		return nil
	}
	if m.initialized {
		return frozen("Physical devices cannot be modified after being initialized")
	}
	m.growth[d.Device] = growth
	return nil
}

func (m *model) setLogical(d config.Arg, configs config.LogicalConfigs) *fail {
	if !slices.Contains(m.physical, d.Device) {
		return value("Unrecognized device: " + d.Repr)
	}
	switch d.Device.Type {
	case "CPU":
		for _, item := range configs.Items {
			if item.MemoryLimitMiB != nil {
				return value("Setting memory limit on CPU virtual devices is currently not supported")
			}
			if item.Priority != nil {
				return value("Setting experimental_priority on CPU virtual  devices is currently not supported")
			}
			if item.Ordinal != nil {
				return value("Setting experimental_device_ordinal on CPU virtual  devices is currently not supported")
			}
		}
	case "GPU":
		for _, item := range configs.Items {
			if item.MemoryLimitMiB == nil {
				return value("Setting memory limit is required for GPU virtual devices")
			}
		}
		for _, item := range configs.Items { // gpuconf's check
			if limit := *item.MemoryLimitMiB; math.IsNaN(limit) || limit < 0 || limit >= 1<<43 {
				return value("memory_limit is ")
			}
			for _, n := range []*int64{item.Priority, item.Ordinal} {
				if n != nil && int64(int32(*n)) != *n {
					return value(fmt.Sprintf("Value out of range: %d", *n))
				}
			}
		}
	default:
		return value("Virtual devices are not supported for " + d.Device.Type)
	}
	if stored, set := m.logical[d.Device]; set && showConfigs(&stored) == showConfigs(&configs) {
		return nil
	}
	if m.initialized {
		return frozen("Virtual devices cannot be modified after being initialized")
	}
	m.logical[d.Device] = configs
	return nil
}

// config is Context.config with Context._compute_device_options.
func (m *model) config() (message, *fail) {
	var msg message
	for _, d := range m.physical {
		if !slices.Contains(m.visible, d) {
			continue
		}
		n := 1
		if configs, set := m.logical[d]; set {
			n = len(configs.Items)
		}
		switch d.Type {
		case "CPU":
			msg.cpus += n
		case "GPU":
			msg.gpus += n
		}
	}
	position, growths := -1, map[any]bool{}
	for _, d := range m.physical {
		if d.Type != "GPU" {
			continue
		}
		position++
		if !slices.Contains(m.visible, d) {
			continue
		}
		growths[m.growth[d]] = true
		msg.visible = append(msg.visible, position)
		if len(m.logical) == 0 {
			continue
		}
		var v virtualDevices
		for _, item := range m.logical[d].Items {
			v.limits = append(v.limits, float32(*item.MemoryLimitMiB))
			if item.Priority != nil {
				v.priorities = append(v.priorities, *item.Priority)
			}
			if item.Ordinal != nil {
				v.ordinals = append(v.ordinals, *item.Ordinal)
			}
		}
		if len(v.priorities) > 0 && len(v.priorities) != len(v.limits) {
			return msg, value("priority must be specified for all virtual devices")
		}
		if len(v.ordinals) > 0 && len(v.ordinals) != len(v.limits) {
			return msg, value("device_ordinals must be specified for all virtual devices")
		}
		msg.virtual = append(msg.virtual, v)
	}
	if len(msg.virtual) == 0 && len(growths) > 0 {
		if len(growths) > 1 {
			return msg, value("Memory growth cannot differ between GPU devices")
		}
		for growth := range growths {
			msg.growth = growth != nil && growth != int64(0)
		}
	}
	return msg, nil
}

// created is a device that the native side creates, as the session scripts show it.
type created struct {
	position int
	limit    string
	priority int64
	ordinal  int64
}

// create is native device creation.
func (m *model) create(least, greatest int64) ([]string, *fail) {
	msg, err := m.config()
	if err != nil {
		return nil, err
	}
	if msg.cpus == 0 {
		return nil, &fail{status.NotFound, "No CPU devices are available in this process"}
	}
	use := min(msg.gpus, len(msg.visible))
	if len(msg.virtual) > 0 {
		if err := verify(msg, use, least, greatest); err != nil {
			return nil, err
		}
		use = len(msg.virtual)
	}
	var gpus []created
	for i := range use {
		if len(msg.virtual) == 0 || len(msg.virtual[i].limits) == 0 {
			gpus = append(gpus, created{position: msg.visible[i]})
			continue
		}
		v := msg.virtual[i]
		for j, limit := range v.limits {
			c := created{position: msg.visible[i], limit: fmt.Sprintf(", limit %d MiB", int64(limit))}
			if len(v.priorities) > 0 {
				c.priority = v.priorities[j]
			}
			if len(v.ordinals) > 0 {
				c.ordinal = v.ordinals[j]
			}
			gpus = append(gpus, c)
		}
	}
	sort.SliceStable(gpus, func(i, j int) bool { return gpus[i].ordinal < gpus[j].ordinal })
	var lines []string
	for id := range msg.cpus {
		lines = append(lines, fmt.Sprintf("/device:CPU:%d on /physical_device:CPU:0", id))
	}
	for id, c := range gpus {
		line := fmt.Sprintf("/device:GPU:%d on /physical_device:GPU:%d%s", id, c.position, c.limit)
		if c.priority != 0 {
			line += fmt.Sprintf(", priority %d", c.priority)
		}
		if msg.growth {
			line += ", growing"
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func verify(msg message, use int, least, greatest int64) *fail {
	if use < len(msg.virtual) {
		return &fail{status.Unknown, fmt.Sprintf("Not enough GPUs to create virtual devices. num_gpus_to_use: %d "+
			"#virtual_devices: %d", use, len(msg.virtual))}
	}
	for i, v := range msg.virtual {
		if (len(msg.virtual[0].ordinals) == 0) != (len(v.ordinals) == 0) {
			return native(fmt.Sprintf("Device ordinals must be set for all virtual devices or none. But the "+
				"device_ordinal is specified for %d while previous devices didn't have any set.", i))
		}
	}
	exists := len(msg.virtual[0].priorities) > 0
	for i, v := range msg.virtual {
		if !exists && len(v.priorities) > 0 {
			return native(fmt.Sprintf("Priority must be set for all virtual devices or none. But the priority is "+
				"specified for %d while previous devices didn't have any set.", i))
		}
		if exists && len(v.limits) != len(v.priorities) {
			return native(fmt.Sprintf("Number of virtual device priorities specified doesn't match with number of "+
				"memory_limit_mb "+
				"specified for GPU# %d memory_limit_mb size: %d and priority size: %d", i, len(v.limits),
				len(v.priorities)))
		}
		for _, p := range v.priorities {
			if p > least || p < greatest {
				return native(fmt.Sprintf("Priority %d is outside the range of supported priorities [%d,%d] for "+
					"virtual device %d on GPU# %d", p, greatest, least, i, msg.visible[i]))
			}
		}
	}
	return nil
}

// The arguments that random sessions draw: mostly valid ones, so that sessions make progress.
var (
	anyDevice = rapid.Custom(func(t *rapid.T) config.Arg {
		a := arg(rapid.SampledFrom([]string{"c", "g0", "g1", "g2", "g0", "g1", "g9", "x0", "'GPU:0'"}).Draw(t,
			"device"))
		if a.Repr == "" {
			a.Repr = a.Device.String()
		}
		return a
	})
	anyType   = rapid.Ptr(rapid.SampledFrom([]string{"GPU", "CPU", "GPU", "gpu", "XPU"}), true)
	anyGrowth = rapid.SampledFrom([]any{int64(1), int64(0), int64(1), int64(2), "text"})
	anyLimit  = rapid.OneOf(rapid.Float64Range(0, 100),
		rapid.SampledFrom([]float64{0, 0.5, 16777217, -1, math.NaN(), 1e300}))
	anySmall = rapid.OneOf(rapid.Int64Range(-2, 1), rapid.Int64Range(-6, 3),
		rapid.SampledFrom([]int64{1 << 31, -1 << 40}))

	anyConfigs = rapid.Custom(func(t *rapid.T) config.LogicalConfigs {
		// Whole columns are present or missing, so that some configurations pass.
		limit, priority, ordinal := rapid.Bool(), rapid.Bool(), rapid.Bool()
		if rapid.IntRange(0, 3).Draw(t, "uniform") > 0 {
			limit = rapid.Just(rapid.IntRange(0, 3).Draw(t, "limits") > 0)
			priority, ordinal = rapid.Just(priority.Draw(t, "priorities")), rapid.Just(ordinal.Draw(t, "ordinals"))
		}
		item := rapid.Custom(func(t *rapid.T) (item config.LogicalConfig) {
			if limit.Draw(t, "limited") {
				v := anyLimit.Draw(t, "limit")
				item.MemoryLimitMiB = &v
			}
			if priority.Draw(t, "prioritised") {
				v := anySmall.Draw(t, "priority")
				item.Priority = &v
			}
			if ordinal.Draw(t, "ordered") {
				v := anySmall.Draw(t, "ordinal")
				item.Ordinal = &v
			}
			return item
		})
		return config.LogicalConfigs{
			Tuple: rapid.IntRange(0, 4).Draw(t, "tuple") == 0,
			Items: rapid.SliceOfN(item, 0, 3).Draw(t, "items"),
		}
	})
)

// TestStateIsTensorFlows runs random sessions on State and on the model: each call must have the same result, with the
// same kind and beginning of the message, and lead to the same devices.
func TestStateIsTensorFlows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newSession(rapid.SampledFrom([]string{"P1", "P2", "P3", "P4", "XPU"}).Draw(r, "machine"))
		m := newModel(s.state.Physical())
		agree := func(want *fail, err error) {
			if want == nil {
				require.NoError(r, err)
				return
			}
			require.Error(r, err, want.String())
			require.Equal(r, want.code, status.CodeOf(err), err.Error())
			require.True(r, strings.HasPrefix(err.Error(), want.text), "%q does not start with %q", err, want.text)
		}
		for range rapid.IntRange(1, 12).Draw(r, "calls") {
			before := s.state.Clone()
			var err error
			switch rapid.SampledFrom([]string{"visible", "growth", "logical", "initialize"}).Draw(r, "call") {
			case "visible":
				devices := rapid.SliceOfN(anyDevice, 0, 3).Draw(r, "devices")
				deviceType := anyType.Draw(r, "type")
				err = s.state.SetVisible(devices, deviceType)
				agree(m.setVisible(devices, deviceType), err)
			case "growth":
				device, growth := anyDevice.Draw(r, "device"), anyGrowth.Draw(r, "growth")
				if number, ok := growth.(int64); ok {
					err = s.state.SetGrowth(device, number, "")
				} else {
					err = s.state.SetGrowth(device, 0, "str")
				}
				agree(m.setGrowth(device, growth), err)
			case "logical":
				device, configs := anyDevice.Draw(r, "device"), anyConfigs.Draw(r, "configs")
				err = s.state.SetLogicalConfigs(device, configs)
				agree(m.setLogical(device, configs), err)
			case "initialize":
				lines, want := m.create(0, -5)
				shown, layoutError := s.layout()
				agree(want, layoutError)
				if layoutError == nil {
					require.Equal(r, strings.Join(lines, "\n"), shown)
					s.state.Initialize("here")
					m.initialized = true
				}
			}
			if err != nil {
				require.Equal(r, before, s.state, "a failed call changed something")
			}
			require.NoError(r, s.state.Check())
			require.Equal(r, showDevices(m.visible), showDevices(s.state.Visible()))
			_, want := m.config()
			agree(want, s.state.Evaluate())
		}
	})
}
