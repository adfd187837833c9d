package devname_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
)

// The machines of the table: P1 has a CPU, P2 also one GPU, P3 two.
var (
	cpu0 = devname.LocalDevice("CPU", 0)
	gpu0 = devname.LocalDevice("GPU", 0)
	gpu1 = devname.LocalDevice("GPU", 1)

	machines = map[string][]devname.Name{
		"P1": {cpu0},
		"P2": {cpu0, gpu0},
		"P3": {cpu0, gpu0, gpu1},
	}
)

// golden has TensorFlow's result for a device string, in each of its three places.
//
//	spec    DeviceSpec.from_string(s).to_string(), or an error: UA unknown attribute, MT multiple device types, INT not
//	        an integer, followed by the word in question
//	scope   the device name in force inside `with tf.device(s)`, LH being /job:localhost/replica:0/task:0; the same
//	        error as spec's where that is one; "!" in front when placement cannot read the name
//	memory  what get_memory_info finds on machine P3, or its error: E1 not parsed, E2 several, E3 none
//
// (CPU:0 is found but has no statistics, which another package handles.)
var golden = []struct{ text, spec, scope, memory string }{
	{"/job:localhost/replica:0/task:0/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:0",
		"LH/device:GPU:0", "GPU:0"},
	{"/device:GPU:0", "/device:GPU:0", "LH/device:GPU:0", "GPU:0"},
	{"/device:GPU:1", "/device:GPU:1", "LH/device:GPU:1", "GPU:1"},
	{"/device:gpu:0", "/device:GPU:0", "LH/device:GPU:0", "E3"},
	{"/device:Gpu:0", "/device:Gpu:0", "LH/device:Gpu:0", "E3"},
	{"/gpu:0", "/device:GPU:0", "LH/device:GPU:0", "GPU:0"},
	{"/GPU:0", "/device:GPU:0", "LH/device:GPU:0", "GPU:0"},
	{"/Gpu:0", "/device:GPU:0", "LH/device:GPU:0", "E1"},
	{"GPU:0", "/device:GPU:0", "LH/device:GPU:0", "GPU:0"},
	{"GPU:00", "/device:GPU:0", "LH/device:GPU:0", "GPU:0"},
	{"gpu:0", "/device:GPU:0", "LH/device:GPU:0", "E3"},
	{"Gpu:0", "/device:GPU:0", "LH/device:GPU:0", "E3"},
	{"GPU:1", "/device:GPU:1", "LH/device:GPU:1", "GPU:1"},
	{"GPU:01", "/device:GPU:1", "LH/device:GPU:1", "GPU:1"},
	{"GPU:7", "/device:GPU:7", "LH/device:GPU:7", "E3"},
	{"/device:GPU:7", "/device:GPU:7", "LH/device:GPU:7", "E3"},
	{"gpu", "/device:GPU:*", "LH/device:GPU:0", "E1"},
	{"GPU", "/device:GPU:*", "LH/device:GPU:0", "E1"},
	{"/gpu", "/device:GPU:*", "LH/device:GPU:0", "E1"},
	{"/GPU", "/device:GPU:*", "LH/device:GPU:0", "E1"},
	{"/device:GPU", "UA device", "UA device", "E2 GPU:0 GPU:1"},
	{"device:GPU:0", "/device:GPU:0", "LH/device:GPU:0", "E1"},
	{"/device:GPU:*", "/device:GPU:*", "LH/device:GPU:0", "E2 GPU:0 GPU:1"},
	{"/gpu:*", "/device:GPU:*", "LH/device:GPU:0", "E2 GPU:0 GPU:1"},
	{"/device:gpu:*", "/device:GPU:*", "LH/device:GPU:0", "E3"},
	{"GPU:*", "/device:GPU:*", "LH/device:GPU:0", "E1"},
	{"/device:*", "UA device", "UA device", "E2 CPU:0 GPU:0"},
	{"/device:*:*", "/device:*:*", "LH/device:*:0", "E2 CPU:0 GPU:0"},
	{"/device:*:0", "/device:*:0", "LH/device:*:0", "E2 CPU:0 GPU:0"},
	{"/device:", "UA device", "UA device", "E1"},
	{"/device::", "INT ''", "INT ''", "E1"},
	{"/device:GPU:", "INT ''", "INT ''", "E1"},
	{"GPU:", "INT ''", "INT ''", "E1"},
	{"CPU:", "INT ''", "INT ''", "E1"},
	{"CPU:GPU", "INT 'GPU'", "INT 'GPU'", "E1"},
	{"GPU:CPU", "INT 'CPU'", "INT 'CPU'", "E1"},
	{"cpu", "/device:CPU:*", "LH/device:CPU:0", "E1"},
	{"CPU", "/device:CPU:*", "LH/device:CPU:0", "E1"},
	{"CPU:0", "/device:CPU:0", "LH/device:CPU:0", "CPU:0"},
	{"/cpu:0", "/device:CPU:0", "LH/device:CPU:0", "CPU:0"},
	{"/CPU:0", "/device:CPU:0", "LH/device:CPU:0", "CPU:0"},
	{"/device:CPU:0", "/device:CPU:0", "LH/device:CPU:0", "CPU:0"},
	{"cpu:0", "/device:CPU:0", "LH/device:CPU:0", "E3"},
	{"/device:CPU:1", "/device:CPU:1", "LH/device:CPU:1", "E3"},
	{"", "", "LH/device:CPU:0", "E2 CPU:0 GPU:0"},
	{"/", "", "LH/device:CPU:0", "E2 CPU:0 GPU:0"},
	{"//", "", "LH/device:CPU:0", "E1"},
	{"/job:worker", "/job:worker", "/job:worker/replica:0/task:0/device:CPU:0", "E3"},
	{"/job:*", "/job:*", "/job:*/replica:0/task:0/device:CPU:0", "E2 CPU:0 GPU:0"},
	{"/job:", "/job:", "!/job:/replica:0/task:0/device:CPU:0", "E1"},
	{"/job:123", "/job:123", "!/job:123/replica:0/task:0/device:CPU:0", "E1"},
	{"/job:a-b", "/job:a-b", "!/job:a-b/replica:0/task:0/device:CPU:0", "E1"},
	{"/job:worker/task:1", "/job:worker/task:1", "/job:worker/replica:0/task:1/device:CPU:0", "E3"},
	{"/task:1/job:worker", "/job:worker/task:1", "/job:worker/replica:0/task:1/device:CPU:0", "E3"},
	{"/replica:-1", "/replica:-1", "!/job:localhost/replica:-1/task:0/device:CPU:0", "E1"},
	{"/replica:x", "INT 'x'", "INT 'x'", "E1"},
	{"/task:", "INT ''", "INT ''", "E1"},
	{"/replica:*", "INT '*'", "INT '*'", "E2 CPU:0 GPU:0"},
	{"/task:0", "/task:0", "LH/device:CPU:0", "E2 CPU:0 GPU:0"},
	{"GPU:-1", "/device:GPU:-1", "!LH/device:GPU:-1", "E1"},
	{"GPU:+1", "/device:GPU:1", "LH/device:GPU:1", "E1"},
	{"GPU: 1", "/device:GPU:1", "LH/device:GPU:1", "E1"},
	{"GPU:1 ", "/device:GPU:1", "LH/device:GPU:1", "E1"},
	{" GPU:0", "UA  GPU", "UA  GPU", "E1"},
	{"GPU:1_0", "/device:GPU:10", "LH/device:GPU:10", "E1"},
	{"GPU:0.0", "INT '0.0'", "INT '0.0'", "E1"},
	{"GPU:4294967296", "/device:GPU:4294967296", "LH/device:GPU:4294967296", "GPU:0"},
	{"/cpu:0/gpu:0", "MT", "MT", "GPU:0"},
	{"/gpu:0/device:CPU:0", "MT", "MT", "CPU:0"},
	{"/device:GPU:0/device:GPU:1", "MT", "MT", "GPU:1"},
	{"/job:a/job:b", "/job:b", "/job:b/replica:0/task:0/device:CPU:0", "E3"},
	{"TPU:0", "/device:TPU:0", "LH/device:TPU:0", "E3"},
	{"EPU:0", "/device:EPU:0", "LH/device:EPU:0", "E3"},
	{"CUSTOM:1", "/device:CUSTOM:1", "LH/device:CUSTOM:1", "E3"},
	{"XPU:0", "UA XPU", "UA XPU", "E3"},
	{"cuda:0", "UA cuda", "UA cuda", "E3"},
	{"unknown_device:0", "UA unknown_device", "UA unknown_device", "E3"},
	{"/device:XPU:0", "/device:XPU:0", "LH/device:XPU:0", "E3"},
	{"/device:MyFunnyDevice:2", "/device:MyFunnyDevice:2", "LH/device:MyFunnyDevice:2", "E3"},
	{"nonexistent", "UA nonexistent", "UA nonexistent", "E1"},
	{"GPU0", "UA GPU0", "UA GPU0", "E1"},
	{"0", "UA 0", "UA 0", "E1"},
	{"1", "UA 1", "UA 1", "E1"},
	{"/physical_device:GPU:0", "UA physical_device", "UA physical_device", "E1"},
	{"/job:localhost", "/job:localhost", "LH/device:CPU:0", "E2 CPU:0 GPU:0"},
	{"/job:localhost/replica:0/task:0", "/job:localhost/replica:0/task:0", "LH/device:CPU:0", "E2 CPU:0 GPU:0"},
	{"/job:localhost/device:GPU:1", "/job:localhost/device:GPU:1", "LH/device:GPU:1", "GPU:1"},
	{"/GPU:0/", "/device:GPU:0", "LH/device:GPU:0", "E1"},
	{"GPU:0/task:0", "/task:0/device:GPU:0", "LH/device:GPU:0", "E1"},
	{"GPU:0:0", "UA GPU", "UA GPU", "E1"},
	{"GPU:1,GPU:0", "UA GPU", "UA GPU", "E1"},
	{"/device:GPU:0:0", "UA device", "UA device", "E1"},
	{"/device: GPU:0", "/device: GPU:0", "!LH/device: GPU:0", "E1"},
	{"/device:GPU:0 ", "/device:GPU:0", "LH/device:GPU:0", "E1"},
}

func TestGoldenDeviceStrings(t *testing.T) {
	for _, row := range golden {
		t.Run(row.text, func(t *testing.T) {
			spec, err := canonicalName(row.text)
			require.Equal(t, row.spec, specOutcome(spec, err), "DeviceSpec")
			checkSpecError(t, row.text, row.spec, err)

			scope, err := devname.EnterScope("", &row.text)
			require.Equal(t, row.scope, scopeOutcome(scope, err), "device scope")

			require.Equal(t, row.memory, memoryOutcome(t, "P3", row.text), "memory info")
		})
	}
}

func TestGoldenMemoryOnSmallerMachines(t *testing.T) {
	for _, row := range []struct{ machine, text, memory string }{
		{"P2", "/device:GPU", "GPU:0"}, // one GPU: no longer ambiguous
		{"P2", "/device:GPU:*", "GPU:0"},
		{"P2", "/gpu:*", "GPU:0"},
		{"P2", "gpu:0", "E3"}, // case 111
		{"P2", "/gpu:0", "GPU:0"},
		{"P2", "/device:gpu:0", "E3"},
		{"P2", "", "E2 CPU:0 GPU:0"}, // case 113
		{"P2", "GPU:1", "E3"},
		{"P1", "", "CPU:0"},
		{"P1", "/", "CPU:0"},
		{"P1", "/device:*", "CPU:0"},
		{"P1", "/device:*:0", "CPU:0"},
		{"P1", "/task:0", "CPU:0"},
		{"P1", "GPU:0", "E3"},
		{"P1", "/gpu:*", "E3"},
	} {
		require.Equal(t, row.memory, memoryOutcome(t, row.machine, row.text), "%s on %s", row.text, row.machine)
	}
}

// specOutcome formats a result of parser P as in the table.
func specOutcome(name string, err error) string {
	if err == nil {
		return name
	}
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "Unknown attribute '"):
		return "UA " + strings.Split(text, "'")[1]
	case strings.HasPrefix(text, "Multiple device types"):
		return "MT"
	case strings.HasPrefix(text, "invalid literal for int() with base 10: "):
		return "INT " + strings.TrimPrefix(text, "invalid literal for int() with base 10: ")
	}
	return text
}

// checkSpecError compares parser P's errors with TensorFlow's full texts.
func checkSpecError(t *testing.T, text, outcome string, err error) {
	if err == nil {
		return
	}
	require.Equal(t, status.InvalidArgument, status.CodeOf(err))
	kind, word, _ := strings.Cut(outcome, " ")
	switch kind {
	case "UA":
		meant := map[string]string{"cuda:0": " Did you mean 'GPU:0'?", "GPU0": " Did you mean 'GPU:0'?"}[text]
		require.EqualError(t, err,
			"Unknown attribute '"+word+"' is encountered while parsing the device spec: '"+text+"'."+meant)
	case "MT":
		require.EqualError(t, err, "Multiple device types are not allowed while parsing the device spec: "+text+".")
	case "INT":
		require.EqualError(t, err, "invalid literal for int() with base 10: "+word)
	}
}

func scopeOutcome(name string, err error) string {
	if err != nil {
		return specOutcome("", err)
	}
	short := name
	if rest, ok := strings.CutPrefix(name, "/job:localhost/replica:0/task:0"); ok {
		short = "LH" + rest
	}
	if _, ok := devname.ParseFullName(name); !ok {
		return "!" + short
	}
	return short
}

// memoryOutcome formats a result of MatchMemoryDevice as in the table, and compares errors with TensorFlow's texts.
func memoryOutcome(t *testing.T, machine, text string) string {
	devices := machines[machine]
	found, err := devname.MatchMemoryDevice(devices, text)
	if err == nil {
		return short(devices[found].Local())
	}
	require.Equal(t, status.InvalidArgument, status.CodeOf(err))
	message := err.Error()
	switch {
	case message == "Failed parsing device name: '"+text+"'. Note a valid device string should at least contain a "+
		"device type and a device index, like \"GPU:0\".":
		return "E1"
	case strings.HasPrefix(message, "Multiple devices match the provided string '"+text+"': '"):
		names := strings.Split(strings.TrimPrefix(message, "Multiple devices match the provided string '"+text+"': "),
			"'")
		require.Equal(t, " and ", names[2])
		require.Equal(t, ".", names[4])
		for _, full := range []string{names[1], names[3]} {
			require.True(t, strings.HasPrefix(full, "/job:localhost/replica:0/task:0/device:"), full)
		}
		return "E2 " + short(names[1]) + " " + short(names[3])
	case strings.HasPrefix(message, "No matching devices found for '"+text+"'"):
		return "E3"
	}
	return message
}

func short(name string) string { return name[strings.LastIndex(name, "device:")+len("device:"):] }
