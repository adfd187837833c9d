//go:build cgo

package pybind_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
	"gpuconf/tests_go/must"
)

// functions are all functions that Python can call. A test compares this list with the package.
var functions = map[string]any{
	"AddConstant":             pybind.AddConstant,
	"AddNode":                 pybind.AddNode,
	"AddPlaceholder":          pybind.AddPlaceholder,
	"CloseJob":                pybind.CloseJob,
	"CloseSession":            pybind.CloseSession,
	"ContextBytes":            pybind.ContextBytes,
	"CopyFromHost":            pybind.CopyFromHost,
	"CopyToHost":              pybind.CopyToHost,
	"CountRecorded":           pybind.CountRecorded,
	"CountedAllocations":      pybind.CountedAllocations,
	"DeviceDetails":           pybind.DeviceDetails,
	"DrainNotices":            pybind.DrainNotices,
	"DrainPlacementLog":       pybind.DrainPlacementLog,
	"DropGraph":               pybind.DropGraph,
	"DropRecording":           pybind.DropRecording,
	"ScopeNumber":             pybind.ScopeNumber,
	"Enumerate":               pybind.Enumerate,
	"Cards":                   pybind.Cards,
	"DescribeBLAS":            pybind.DescribeBLAS,
	"Models":                  pybind.Models,
	"Execute":                 pybind.Execute,
	"ExecuteBinary":           pybind.ExecuteBinary,
	"FailAllocation":          pybind.FailAllocation,
	"FeedJob":                 pybind.FeedJob,
	"Frees":                   pybind.Frees,
	"Identities":              pybind.Identities,
	"ImportConfig":            pybind.ImportConfig,
	"Initialize":              pybind.Initialize,
	"InternTag":               pybind.InternTag,
	"IsUnified":               pybind.IsUnified,
	"JobPage":                 pybind.JobPage,
	"JobProgress":             pybind.JobProgress,
	"JobResult":               pybind.JobResult,
	"LedgerCheck":             pybind.LedgerCheck,
	"LedgerClaim":             pybind.LedgerClaim,
	"LedgerClose":             pybind.LedgerClose,
	"LedgerGrant":             pybind.LedgerGrant,
	"LedgerInit":              pybind.LedgerInit,
	"LedgerIsShared":          pybind.LedgerIsShared,
	"LedgerMayMake":           pybind.LedgerMayMake,
	"LedgerOpen":              pybind.LedgerOpen,
	"LedgerPublish":           pybind.LedgerPublish,
	"LedgerRelease":           pybind.LedgerRelease,
	"LedgerRows":              pybind.LedgerRows,
	"LedgerUnpublish":         pybind.LedgerUnpublish,
	"LedgerLost":              pybind.LedgerLost,
	"LedgerLook":              pybind.LedgerLook,
	"LedgerWords":             pybind.LedgerWords,
	"LedgerPlans":             pybind.LedgerPlans,
	"LedgerReturn":            pybind.LedgerReturn,
	"LedgerLend":              pybind.LedgerLend,
	"LedgerPark":              pybind.LedgerPark,
	"LedgerUnreserve":         pybind.LedgerUnreserve,
	"LedgerReserve":           pybind.LedgerReserve,
	"LedgerSay":               pybind.LedgerSay,
	"LedgerAdopt":             pybind.LedgerAdopt,
	"LimitBytes":              pybind.LimitBytes,
	"LimitInForce":            pybind.LimitInForce,
	"LiveTensors":             pybind.LiveTensors,
	"LogicalDevices":          pybind.LogicalDevices,
	"LogicalConfigured":       pybind.LogicalConfigured,
	"MakeTensor":              pybind.MakeTensor,
	"MalformedVariables":      pybind.MalformedVariables,
	"MemoryGrowth":            pybind.MemoryGrowth,
	"MemoryInfo":              pybind.MemoryInfo,
	"MemoryMap":               pybind.MemoryMap,
	"MemoryStats":             pybind.MemoryStats,
	"MemoryTotals":            pybind.MemoryTotals,
	"MemoryUsage":             pybind.MemoryUsage,
	"MergeScope":              pybind.MergeScope,
	"NewGraph":                pybind.NewGraph,
	"OpenLoad":                pybind.OpenLoad,
	"OpenPlan":                pybind.OpenPlan,
	"OpenRecorded":            pybind.OpenRecorded,
	"OpenSession":             pybind.OpenSession,
	"OpenTimeline":            pybind.OpenTimeline,
	"OpenVerify":              pybind.OpenVerify,
	"ParseFleet":              pybind.ParseFleet,
	"ReadTensor":              pybind.ReadTensor,
	"ReleaseTensor":           pybind.ReleaseTensor,
	"RequestDevice":           pybind.RequestDevice,
	"Reset":                   pybind.Reset,
	"ResetMemoryStats":        pybind.ResetMemoryStats,
	"ResolveGPU":              pybind.ResolveGPU,
	"RunSession":              pybind.RunSession,
	"SessionDevices":          pybind.SessionDevices,
	"SessionLog":              pybind.SessionLog,
	"SessionShapes":           pybind.SessionShapes,
	"SetLogicalConfiguration": pybind.SetLogicalConfiguration,
	"SetMemoryGrowth":         pybind.SetMemoryGrowth,
	"SetSetting":              pybind.SetSetting,
	"SetVisibleDevices":       pybind.SetVisibleDevices,
	"Setting":                 pybind.Setting,
	"Simulate":                pybind.Simulate,
	"Specification":           pybind.Specification,
	"StartPeak":               pybind.StartPeak,
	"StartRecording":          pybind.StartRecording,
	"StopPeak":                pybind.StopPeak,
	"StopRecording":           pybind.StopRecording,
	"SystemReserve":           pybind.SystemReserve,
	"TensorInfo":              pybind.TensorInfo,
	"VisibleDevices":          pybind.VisibleDevices,
	"WaitForFree":             pybind.WaitForFree,
	"WaitJob":                 pybind.WaitJob,
	"WhyNoGPU":                pybind.WhyNoGPU,
}

func TestEveryBoundFunctionIsTested(t *testing.T) {
	there, _ := bound(t, "../../../pybind")
	for name := range there {
		require.Contains(t, functions, name, "add it to this file's table")
	}
	require.Len(t, functions, len(there), "the table has functions that are gone")
}

// Invalid values of each kind.
var hostile = map[reflect.Kind][]any{
	reflect.Int64: {int64(0), int64(1), int64(-1), int64(math.MinInt64), int64(math.MaxInt64), int64(1) << 32,
		int64(0x7f00_0000_0000)},
	reflect.String: {
		"", "null", "{", "[]", "7", `"x"`, "{}", "[[0]]", "[[null, null]]", `[[1e300, "x"]]`, `[["x", 1]]`,
		`{"fetches": [[0, 1, -1]], "targets": [0], "feeds": [[0, 0, 1]]}`, `[false, [[1, 2]]]`,
		`[false, [["x", null, null]]]`, `{"items": [[1e999, 1.5, {}]]}`, `{"A": 1}`, "GPU:0", "float32", "1 1", "2,2",
		"MatMul", "Const", "GPU:99999999999999999999", "jit", "a\x00b", "\xff\xfe",
		"\x1eINTERNAL\x1e", strings.Repeat("[", 20_000),
	},
	reflect.Bool: {true, false},
}

// manyCalls calls a function with combinations of hostile arguments.
func manyCalls(function reflect.Value, each func(arguments, results []reflect.Value)) {
	combinations := 1
	for i := range function.Type().NumIn() {
		combinations *= len(hostile[function.Type().In(i).Kind()])
	}
	if combinations <= enoughCalls {
		everyCall(function, nil, each)
		return
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range enoughCalls {
		arguments := make([]reflect.Value, function.Type().NumIn())
		for i := range arguments {
			choices := hostile[function.Type().In(i).Kind()]
			arguments[i] = reflect.ValueOf(choices[random.IntN(len(choices))])
		}
		each(arguments, function.Call(arguments))
	}
}

// everyCall calls a function with every combination of hostile arguments.
func everyCall(function reflect.Value, arguments []reflect.Value, each func(arguments, results []reflect.Value)) {
	if len(arguments) == function.Type().NumIn() {
		each(arguments, function.Call(arguments))
		return
	}
	for _, value := range hostile[function.Type().In(len(arguments)).Kind()] {
		everyCall(function, append(arguments[:len(arguments):len(arguments)], reflect.ValueOf(value)), each)
	}
}

func TestNothingThatComesAcrossPanics(t *testing.T) {
	for _, state := range []struct {
		name  string
		enter func(t *testing.T)
	}{
		{"nothing listed", func(*testing.T) {}},
		{"enumerated", func(t *testing.T) { must.OK(pybind.Enumerate("{}"))(t) }},
		{"initialized", func(t *testing.T) { initialize(t) }},
		{"reset", func(t *testing.T) {
			initialize(t)
			must.OK(pybind.Reset())(t)
		}},
	} {
		t.Run(state.name, func(t *testing.T) {
			for name, function := range functions {
				t.Run(name, func(t *testing.T) {
					t.Chdir(t.TempDir()) // a hostile text may be a folder for a ledger
					onMachine(t, "T4:1GiB")
					state.enter(t)
					manyCalls(reflect.ValueOf(function), func(arguments, results []reflect.Value) {
						if err, failed := results[1].Interface().(error); failed {
							if _, _, complaint := unmark(err); complaint != "" {
								t.Errorf("%v: %s", arguments, complaint)
							}
						}
						require.NoError(t, process.Alive(), "%v panics", arguments)
					})
				})
			}
		})
	}
}

// Invalid arguments, and the errors that Python shows.
func TestKindsOfErrors(t *testing.T) {
	type row struct {
		name string
		err  error
		kind status.Code
		text string
	}
	run := func(t *testing.T, rows []row) {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				require.Contains(t, requireKind(t, row.kind, row.err), row.text)
				require.NoError(t, process.Alive())
			})
		}
	}
	takes := func(number, bytes int64) error { return must.Err(take(number, bytes)) }
	visible := func(devices string) error { return must.Err(pybind.SetVisibleDevices(devices, "", false)) }
	logical := func(text string) error { return must.Err(pybind.SetLogicalConfiguration(1, "", text)) }
	setting := func(name, value string) error { return must.Err(pybind.SetSetting(name, value)) }
	onMachine(t, "T4:1GiB")
	t.Run("before Enumerate", func(t *testing.T) {
		const text = "no devices are listed yet; call gpuconf.config.list_logical_devices() first, in C gpuconf_init()"
		run(t, []row{
			{"Initialize", must.Err(pybind.Initialize("{}", "")), status.FailedPrecondition, text},
			{"LogicalDevices", must.Err(pybind.LogicalDevices()), status.FailedPrecondition, text},
			{"VisibleDevices", must.Err(pybind.VisibleDevices()), status.FailedPrecondition, text},
			{"Take", takes(0, 1), status.FailedPrecondition, text},
			{"GiveBack", cabi.GiveBack(1, 1), status.FailedPrecondition, text},
			{"CopyToHost", must.Err(pybind.CopyToHost(1, 1, 0, 1, 1)), status.FailedPrecondition, text},
			{"MemoryInfo", must.Err(pybind.MemoryInfo("GPU:0")), status.FailedPrecondition, text},
			{"ScopeNumber", must.Err(pybind.ScopeNumber("/device:GPU:0")), status.FailedPrecondition, text},
			{"an environment that is no JSON", must.Err(pybind.Enumerate("{")), status.Internal, "decoding"},
			{"an environment of numbers", must.Err(pybind.Enumerate(`{"A": 1}`)), status.Internal, "decoding"},
			{"an unknown model", must.Err(pybind.Simulate("Z80")), status.InvalidArgument, "lists the models"},
		})
	})
	must.OK(pybind.Enumerate("{}"))(t)
	t.Run("enumerated", func(t *testing.T) {
		run(t, []row{
			{"an allocation", takes(0, 1), status.FailedPrecondition, "not initialized yet"},
			{"a device list that is no JSON", visible("["), status.Internal, "decoding"},
			{"a device list of other things", visible(`[["x", 1]]`), status.Internal, "decoding device 0"},
			{"a device list with nulls", visible(`[[0, ""], [null, null]]`), status.Internal, "decoding device 1"},
			{"an unknown device", visible(`[[-1, "'what'"]]`), status.Value, "'what'"},
			{"a device far behind", visible(`[[1e18, "'what'"]]`), status.Value, "'what'"},
			{"growth of an unknown device", must.Err(pybind.MemoryGrowth(99, "'x'")), status.Value, "'x'"},
			{"growth of a CPU", must.Err(pybind.MemoryGrowth(0, "")), status.NotFound, "only a GPU"},
			{"growth of no bool", must.Err(pybind.SetMemoryGrowth(1, "", 0, "str")), status.InvalidType, "str"},
			{"logical devices of a CPU with a limit",
				must.Err(pybind.SetLogicalConfiguration(0, "", `[false, [[1, null, null]]]`)), status.Value, "CPU"},
			{"no JSON", logical("{"), status.Internal, "decoding"},
			{"an item too short", logical(`[false, [[1]]]`), status.Internal, "decoding"},
			{"a limit that is no number", logical(`[false, [["ten", null, null]]]`), status.Internal, "memory limit"},
			{"a limit that is nan", logical(`[false, [["nan", null, null]]]`), status.Value, "memory_limit"},
			{"a limit that is inf", logical(`[false, [["inf", null, null]]]`), status.Value, "memory_limit"},
			{"a negative limit", logical(`[false, [[-1, null, null]]]`), status.Value, "memory_limit"},
			{"a huge limit", logical(`[false, [[1e30, null, null]]]`), status.Value, "memory_limit"},
			{"a fractional priority", logical(`[false, [[1, 1.5, null]]]`), status.Internal, "decoding"},
			{"an unknown setting", setting("magic", "1"), status.Internal, "magic"},
			{"a setting of another type", setting("soft_device_placement", "7"), status.Internal, "decoding"},
			{"threads beyond 32 bits", setting("intra_op_parallelism_threads", "4294967296"), status.Value, "range"},
			{"an unknown policy", setting("device_policy", `{"name": "loud", "repr": "'loud'"}`),
				status.Value, "'loud'"},
			{"an argument no scope can have", must.Err(pybind.MergeScope("", "what:is:this")),
				status.InvalidArgument, "what:is:this"},
		})
		require.Equal(t, "[0,1]", must.OK(pybind.VisibleDevices())(t), "nothing has changed")
	})
	initialize(t)
	b := allocate(t, 0, 1000)
	t.Run("initialized", func(t *testing.T) {
		copyTo := func(address, offset, host, bytes int64) error {
			return must.Err(pybind.CopyToHost(address, b.id, offset, host, bytes))
		}
		copyFrom := func(address, offset, host, bytes int64) error {
			return must.Err(pybind.CopyFromHost(address, b.id, offset, host, bytes))
		}
		run(t, []row{
			{"a GPU too many", takes(1, 1), status.InvalidArgument, "unknown device GPU:1"},
			{"a number beyond all", takes(math.MaxInt64, 1),
				status.InvalidArgument, "unknown device GPU:9223372036854775807"},
			{"a negative size", takes(0, -1), status.InvalidArgument, "nbytes must be at least 0, but got -1"},
			{"a huge size", takes(0, math.MaxInt64), status.ResourceExhausted, " out of memory"},
			{"a free of nothing known", cabi.GiveBack(4096, 1), status.InvalidArgument, "0x1000"},
			{"a free with another id", cabi.GiveBack(uint64(b.address), uint64(b.id+1)),
				status.InvalidArgument, "not live"},
			{"a free at a negative address", cabi.GiveBack(uint64(-b.address), uint64(b.id)),
				status.InvalidArgument, "not the address"},
			{"a negative offset", copyTo(b.address, -1, 1, 1), status.InvalidArgument, "invalid"},
			{"a negative length", copyTo(b.address, 0, 1, -1), status.InvalidArgument, "invalid"},
			{"nowhere on the host", copyFrom(b.address, 0, 0, 1), status.InvalidArgument, "invalid"},
			{"a negative host address", copyFrom(b.address, 0, -1, 2), status.InvalidArgument, "invalid"},
			{"beyond the host's addresses", copyFrom(b.address, 0, math.MaxInt64, 2),
				status.InvalidArgument, "invalid"},
			{"longer than the block", copyTo(b.address, 0, 4096, math.MaxInt64-4096),
				status.InvalidArgument, "does not fit"},
			{"behind the block", copyTo(b.address, 1001, 4096, 1), status.InvalidArgument, "does not fit"},
			{"with another id", must.Err(pybind.CopyToHost(b.address, b.id+1, 0, 4096, 1)),
				status.InvalidArgument, "not the address"},
			{"into nothing known", copyFrom(b.address+256, 0, 4096, 1), status.InvalidArgument, "not the address"},
			{"a device that is not there", must.Err(pybind.MemoryInfo("GPU:1")),
				status.InvalidArgument, "No matching devices"},
			{"a device string with a NUL", must.Err(pybind.ResolveGPU("GPU:\x000")),
				status.InvalidArgument, `GPU:\00`},
			{"a device string of no text", must.Err(pybind.ResolveGPU("\xff")), status.InvalidArgument, "\uFFFD"},
			{"a device string with a mark", must.Err(pybind.ResolveGPU("a\x1eb")), status.InvalidArgument, "'a b'"},
			{"the memory of a CPU", must.Err(pybind.MemoryMap("CPU:0")), status.InvalidArgument, "no memory pool"},
			{"the usage of a CPU", must.Err(pybind.MemoryUsage("CPU:0")), status.InvalidArgument, "no memory pool"},
			{"a tag without a name", must.Err(pybind.InternTag("")), status.InvalidArgument, "must not be empty"},
			{"a tag of no text", must.Err(pybind.InternTag("\xff")), status.InvalidArgument, "valid UTF-8"},
			{"an unknown measurement", must.Err(pybind.StopPeak(0, 99)), status.InvalidArgument, "not running"},
			{"a wait for a GPU too many", must.Err(pybind.WaitForFree(1, 0, 1)),
				status.InvalidArgument, "unknown device GPU:1"},
			{"growth, too late", must.Err(pybind.SetMemoryGrowth(1, "", 1, "")), status.State, "main.py:1 (test)"},
			{"a reset under a live block", must.Err(pybind.Reset()),
				status.FailedPrecondition, "1 block on GPU:0 (1.0KiB)"},
			{"a simulation under a live block", must.Err(pybind.Simulate("T4")),
				status.FailedPrecondition, "1 block on GPU:0"},
		})
		require.Equal(t, "1024 1024", must.OK(pybind.MemoryInfo("GPU:0"))(t), "nothing has changed")
	})
	b.free(t)
}
