package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

var rewrite = flag.Bool("rewrite", false, "write what the sessions in testdata print now; review the diff")

// TestSessions runs the sessions of testdata: each file tests one rule, each block has commands, "----" and their
// output. A number in a comment is that of a conformance case. Besides the output, two rules are checked for every
// command: one that fails changes nothing, and the state is sound after each.
func TestSessions(t *testing.T) {
	paths := must.OK(filepath.Glob("testdata/*.txt"))(t)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text := must.OK(os.ReadFile(path))(t)
			got := runScript(t, string(text))
			if *rewrite {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			require.Equal(t, string(must.OK(os.ReadFile(path))(t)), got)
		})
	}
}

// runScript returns the script with the output of its blocks replaced by what the commands print.
func runScript(t *testing.T, script string) string {
	var out strings.Builder
	session := newSession("P3")
	printed, skipping := "", false
	for _, line := range strings.SplitAfter(script, "\n") {
		command := strings.TrimSpace(line)
		switch {
		case skipping && command != "": // the old output
			continue
		case command == "----":
			out.WriteString(line + printed)
			printed, skipping = "", true
			continue
		case command != "" && !strings.HasPrefix(command, "#"):
			printed += session.run(t, command)
		}
		skipping = false
		out.WriteString(line)
	}
	require.Empty(t, printed, "a block without ----")
	return out.String()
}

// session is the state of one program.
type session struct {
	state *config.State
	facts []config.GPUFacts
}

func newSession(machine string) *session {
	gpus := map[string]int{"P1": 0, "P2": 1, "P3": 2, "P4": 3, "P10": 9, "XPU": 0, "none": 0}[machine]
	devices := []config.PhysicalDevice{device("CPU", 0)}
	if machine == "none" {
		devices = nil
	}
	s := &session{}
	for i := range gpus {
		devices = append(devices, device("GPU", i))
		s.facts = append(s.facts, config.GPUFacts{Ordinal: i, LeastPriority: 0, GreatestPriority: -5})
	}
	if machine == "XPU" {
		devices = append(devices, device("XPU", 0))
	}
	s.state = config.New(devices)
	return s
}

func device(deviceType string, ordinal int) config.PhysicalDevice {
	return config.PhysicalDevice{Name: fmt.Sprintf("/physical_device:%s:%d", deviceType, ordinal), Type: deviceType}
}

func (s *session) run(t *testing.T, command string) string {
	if machine, ok := strings.CutPrefix(command, "machine "); ok {
		*s = *newSession(machine)
		return ""
	}
	before := s.state.Clone()
	value, err := s.do(t, command)
	require.NoError(t, s.state.Check(), command)
	if err != nil {
		require.Equal(t, before, s.state, "%s failed and changed something", command)
		return status.CodeOf(err).String() + ": " + err.Error() + "\n"
	}
	return value + "\n"
}

// do runs one command; setters return "ok".
func (s *session) do(t *testing.T, command string) (string, error) {
	name, rest, _ := strings.Cut(command, " ")
	device, rest, _ := strings.Cut(rest, " ")
	switch name {
	case "list_physical_devices":
		return showDevices(s.state.Physical()), nil
	case "get_visible_devices":
		return showDevices(s.state.Visible()), nil
	case "set_visible_devices":
		var deviceType *string
		if rest != "" {
			deviceType = &rest
		}
		return "ok", s.state.SetVisible(deviceList(device), deviceType)
	case "get_memory_growth":
		value, set, err := s.state.Growth(arg(device))
		if !set {
			return "None", err
		}
		return strconv.FormatInt(value, 10), err
	case "set_memory_growth":
		value, badType := growthValue(rest)
		return "ok", s.state.SetGrowth(arg(device), value, badType)
	case "get_logical_device_configuration":
		configs, err := s.state.LogicalConfigs(arg(device))
		return showConfigs(configs), err
	case "set_logical_device_configuration":
		return "ok", s.state.SetLogicalConfigs(arg(device), parseConfigs(t, rest))
	case "layout":
		return s.layout()
	case "list_logical_devices": // lays out, builds and initializes
		shown, err := s.layout()
		if err == nil {
			s.state.Initialize("train.py:12 (list_logical_devices)")
		}
		return shown, err
	case "initialized":
		return fmt.Sprint(s.state.Initialized()), nil
	}
	return s.doSwitch(t, name, device, rest)
}

func (s *session) doSwitch(t *testing.T, name, value, rest string) (string, error) {
	switch name {
	case "get_soft_device_placement":
		return show(s.state.SoftPlacement(value != "graph"))
	case "set_soft_device_placement":
		s.state.SetSoftPlacement(optionalBool(value))
	case "get_log_device_placement":
		return show(s.state.LogPlacement())
	case "set_log_device_placement":
		s.state.SetLogPlacement(optionalBool(value))
	case "get_jit":
		return show(s.state.Jit())
	case "set_jit":
		s.state.SetJit(value == "True")
	case "get_intra_op_parallelism_threads":
		return show(s.state.IntraOpThreads())
	case "set_intra_op_parallelism_threads":
		return "ok", s.state.SetIntraOpThreads(optionalInt(t, value))
	case "get_inter_op_parallelism_threads":
		return show(s.state.InterOpThreads())
	case "set_inter_op_parallelism_threads":
		return "ok", s.state.SetInterOpThreads(optionalInt(t, value))
	case "get_device_policy":
		return s.state.DevicePolicy(), nil
	case "set_device_policy":
		if value == "None" {
			return "ok", s.state.SetDevicePolicy(nil, value)
		}
		policy := strings.Trim(value, "'")
		return "ok", s.state.SetDevicePolicy(&policy, value)
	case "get_synchronous_execution":
		return fmt.Sprint(s.state.SynchronousExecution()), nil
	case "set_synchronous_execution":
		s.state.SetSynchronousExecution(optionalBool(value))
	case "get_experimental_options":
		return show(s.state.OptimizerOptions())
	case "set_experimental_options":
		return "ok", s.state.SetOptimizerOptions(map[string]*int64{value: optionalInt(t, rest)})
	default:
		require.Fail(t, "unknown command", name)
	}
	return "ok", nil
}

// layout formats the planned logical devices, one per line.
func (s *session) layout() (string, error) {
	layout, err := s.state.Layout(s.facts)
	if err != nil {
		return "", err
	}
	physical := s.state.Physical()
	var lines []string
	for _, d := range layout.Devices {
		line := d.Logical.Name + " on " + physical[d.Physical].Name
		if d.Limited {
			line += fmt.Sprintf(", limit %d MiB", d.LimitBytes>>20)
		}
		if d.Priority != 0 {
			line += fmt.Sprintf(", priority %d", d.Priority)
		}
		if d.Growth {
			line += ", growing"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}

// arg reads a device: c, g0, g1, ... are the machine's, g9 and x0 are devices of no machine here, and anything else is
// an object that is not a device.
func arg(text string) config.Arg {
	if text == "c" {
		return config.Arg{Device: device("CPU", 0)}
	}
	if m := regexp.MustCompile(`^([gx])(\d+)$`).FindStringSubmatch(text); m != nil {
		ordinal, _ := strconv.Atoi(m[2])
		return config.Arg{Device: device(map[string]string{"g": "GPU", "x": "XPU"}[m[1]], ordinal)}
	}
	return config.Arg{Repr: text}
}

// deviceList reads [g0,g1]; a text without brackets is one device, as tf.config sees it.
func deviceList(text string) []config.Arg {
	inner, isList := strings.CutPrefix(text, "[")
	if !isList {
		return []config.Arg{arg(text)}
	}
	args := []config.Arg{}
	for _, name := range strings.Split(strings.TrimSuffix(inner, "]"), ",") {
		if name != "" {
			args = append(args, arg(name))
		}
	}
	return args
}

func growthValue(text string) (value int64, badType string) {
	switch text {
	case "True":
		return 1, ""
	case "False":
		return 0, ""
	case "None":
		return 0, "NoneType"
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, "str"
	}
	return value, ""
}

var logicalConfig = regexp.MustCompile(`L\(([^)]*)\)`)

// parseConfigs reads [L(10), L(memory_limit, experimental_priority, experimental_device_ordinal)] or a tuple.
func parseConfigs(t *testing.T, text string) config.LogicalConfigs {
	configs := config.LogicalConfigs{Tuple: strings.HasPrefix(text, "(")}
	for _, m := range logicalConfig.FindAllStringSubmatch(text, -1) {
		fields := append(strings.Split(m[1], ","), "", "", "")
		item := config.LogicalConfig{Priority: optionalInt(t, fields[1]), Ordinal: optionalInt(t, fields[2])}
		if limit := strings.TrimSpace(fields[0]); limit != "" && limit != "None" {
			value := must.OK(strconv.ParseFloat(limit, 64))(t)
			item.MemoryLimitMiB = &value
		}
		configs.Items = append(configs.Items, item)
	}
	return configs
}

func showConfigs(configs *config.LogicalConfigs) string {
	if configs == nil {
		return "None"
	}
	var items []string
	for _, item := range configs.Items {
		items = append(items, fmt.Sprintf("L(%s, %s, %s)",
			showPointer(item.MemoryLimitMiB), showPointer(item.Priority), showPointer(item.Ordinal)))
	}
	if configs.Tuple && len(items) == 1 {
		return "(" + items[0] + ",)"
	}
	if configs.Tuple {
		return "(" + strings.Join(items, ", ") + ")"
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func showPointer[T any](p *T) string {
	if p == nil {
		return "None"
	}
	return fmt.Sprint(*p)
}

func optionalBool(text string) *bool {
	if text == "None" {
		return nil
	}
	value := text == "True"
	return &value
}

func optionalInt(t *testing.T, text string) *int64 {
	text = strings.TrimSpace(text)
	if text == "None" || text == "" {
		return nil
	}
	value := must.OK(strconv.ParseInt(text, 10, 64))(t)
	return &value
}

func show[T any](value T, err error) (string, error) { return fmt.Sprint(value), err }

func showDevices(devices []config.PhysicalDevice) string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.Name
	}
	return "[" + strings.Join(names, ", ") + "]"
}
