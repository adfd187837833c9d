//go:build cgo

package nvml_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/machine/fakenvml"
)

const (
	cardUUID  = "GPU-11111111-2222-3333-4444-555555555555"
	otherUUID = "GPU-99999999-2222-3333-4444-555555555555"
	migUUID   = "MIG-aaaaaaaa-2222-3333-4444-555555555555"
	mig2UUID  = "MIG-bbbbbbbb-2222-3333-4444-555555555555"
)

// oneCard is a simple machine.
const oneCard = `driver 550.54.15
cuda 12040
card ` + cardUUID + ` domain=0 bus=23 device=0 cc=9.0 mig=off total=85899345920 used=2147483648 NVIDIA H100 80GB HBM3
process 4711 bytes=1073741824 list=compute gi=-1 ci=-1
process 4711 bytes=1073741824 list=graphics gi=-1 ci=-1
process 4712 bytes=1048576 list=mps gi=-1 ci=-1
process 4713 bytes=-1 list=compute gi=-1 ci=-1
`

// divided is a machine with a divided card and a whole one.
const divided = `driver 535.129.03
cuda 12020
card ` + cardUUID + ` domain=1 bus=193 device=2 cc=8.0 mig=on total=42949672960 used=1048576 NVIDIA A100-SXM4-40GB
instance ` + migUUID + ` gi=1 ci=0 total=20937965568 used=4096 NVIDIA A100-SXM4-40GB MIG 3g.20gb
hole
instance ` + mig2UUID + ` gi=2 ci=0 total=20937965568 used=0 NVIDIA A100-SXM4-40GB MIG 3g.20gb
process 77 bytes=4096 list=compute gi=1 ci=0
process 78 bytes=512 list=compute gi=2 ci=0
card ` + otherUUID + ` domain=0 bus=2 device=0 cc=7.5 mig=none total=15843721216 used=0 Tesla T4
`

func TestAMachineIsToldAsItIs(t *testing.T) {
	got := surveyFake(t, oneCard)
	require.Equal(t, failed{}, got.Open)
	got.System.HostPIDs = false // a property of this machine, which another test checks
	require.Equal(t, gpu.System{DriverVersion: "550.54.15", CUDAMajor: 12, CUDAMinor: 4}, got.System)
	require.Len(t, got.Cards, 1)
	require.Empty(t, got.Cards[0].Failed)
	require.Equal(t, gpu.Card{
		UUID: cardUUID, PCIBusID: "0000:17:00.0", Name: "NVIDIA H100 80GB HBM3", ComputeMajor: 9, MIG: gpu.MIGOff,
	}, got.Cards[0].Card)
	require.Equal(t, map[string]useSurvey{cardUUID: {
		Memory: gpu.MemoryUse{TotalBytes: 80 << 30, UsedBytes: 2 << 30, FreeBytes: 78 << 30},
		Processes: []gpu.Process{
			{PID: 4711, UsedBytes: 1 << 30, BytesKnown: true, GPUInstanceID: -1, ComputeInstanceID: -1},
			{PID: 4713, GPUInstanceID: -1, ComputeInstanceID: -1},
			{PID: 4712, UsedBytes: 1 << 20, BytesKnown: true, GPUInstanceID: -1, ComputeInstanceID: -1},
		},
	}}, got.Cards[0].Use)
	require.Equal(t, failed{}, got.Close)
	require.Equal(t, "FAILED_PRECONDITION", got.AfterHand.Kind)
}

func TestLookingLoadsNoCUDA(t *testing.T) {
	require.False(t, surveyFake(t, divided).CUDA, "without libcuda there is no context")
}

func TestADividedCardListsItsInstances(t *testing.T) {
	got := surveyFake(t, divided)
	require.Len(t, got.Cards, 2)
	card := got.Cards[0]
	require.Equal(t, "0001:c1:02.0", card.Card.PCIBusID)
	require.Equal(t, gpu.MIGOn, card.Card.MIG)
	require.Equal(t, []gpu.Instance{
		{UUID: migUUID, Name: "NVIDIA A100-SXM4-40GB MIG 3g.20gb", GPUInstanceID: 1},
		{UUID: mig2UUID, Name: "NVIDIA A100-SXM4-40GB MIG 3g.20gb", GPUInstanceID: 2},
	}, card.Card.Instances)
	require.Equal(t, gpu.MemoryUse{TotalBytes: 20937965568, UsedBytes: 4096, FreeBytes: 20937961472},
		card.Use[migUUID].Memory)
	first := gpu.Process{PID: 77, UsedBytes: 4096, BytesKnown: true, GPUInstanceID: 1}
	second := gpu.Process{PID: 78, UsedBytes: 512, BytesKnown: true, GPUInstanceID: 2}
	require.Equal(t, []gpu.Process{first, second}, card.Use[cardUUID].Processes)
	require.Equal(t, []gpu.Process{first}, card.Use[migUUID].Processes)
	require.Equal(t, []gpu.Process{second}, card.Use[mig2UUID].Processes)
	require.Equal(t, gpu.MIGAbsent, got.Cards[1].Card.MIG)
	require.Empty(t, got.Cards[1].Card.Instances)
}

func TestAMachineWithoutGPUsHasADriverAllTheSame(t *testing.T) {
	got := surveyFake(t, "driver 550.54.15\ncuda 12040\n")
	require.Equal(t, failed{}, got.Open)
	require.Equal(t, failed{}, got.CardsFailed)
	require.Empty(t, got.Cards)
}

// TestAnOldDriverTellsWhatItHas uses a driver without the functions added later. Without trampolines, each call of a
// missing function would end the process.
func TestAnOldDriverTellsWhatItHas(t *testing.T) {
	old := fakenvml.Build(t, "FAKE_NVML_OLD")
	for _, bind := range []string{"LD_BIND_NOW=", "LD_BIND_NOW=1"} {
		got := surveyWith(t, old, []string{oneCard}, bind)[0]
		require.Equal(t, failed{}, got.Open)
		require.Len(t, got.Cards, 1)
		require.Empty(t, got.Cards[0].Failed)
		require.Equal(t, gpu.Card{
			UUID: cardUUID, PCIBusID: "0000:17:00.0", Name: "NVIDIA H100 80GB HBM3", ComputeMajor: 9,
			MIG: gpu.MIGAbsent,
		}, got.Cards[0].Card)
		require.Equal(t, []gpu.Process{
			{PID: 4711, UsedBytes: 1 << 30, BytesKnown: true, GPUInstanceID: -1, ComputeInstanceID: -1},
			{PID: 4713, GPUInstanceID: -1, ComputeInstanceID: -1},
		}, got.Cards[0].Use[cardUUID].Processes)
	}
}

func TestEveryBindingModeGivesTheSameAnswers(t *testing.T) {
	require.Equal(t, surveyFake(t, divided), surveyFake(t, divided, "LD_BIND_NOW=1"))
}

// TestWithoutALibrary is the case of most laptops.
func TestWithoutALibrary(t *testing.T) {
	for _, bind := range []string{"LD_BIND_NOW=", "LD_BIND_NOW=1"} {
		got := runJob[survey](t, "survey", bind)
		require.Equal(t, "UNAVAILABLE", got.Open.Kind)
		for _, part := range []string{"libnvidia-ml.so.1: cannot open", "/usr/lib/wsl/lib/libnvidia-ml.so.1",
			"NVIDIA_DRIVER_CAPABILITIES"} {
			require.Contains(t, got.Open.Text, part)
		}
	}
}

func TestABrokenLibraryIsNamedWithItsFault(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "libnvidia-ml.so.1"), []byte("not a library"), 0o600))
	got := runJob[survey](t, "survey", "LD_LIBRARY_PATH="+folder)
	require.Equal(t, "UNAVAILABLE", got.Open.Kind)
	require.Contains(t, got.Open.Text, folder+"/libnvidia-ml.so.1: ")
}

// TestCallsBeforeLoading would each end the process without trampolines.
func TestCallsBeforeLoading(t *testing.T) {
	for _, bind := range []string{"LD_BIND_NOW=", "LD_BIND_NOW=1"} {
		answers := runJob[[]any](t, "before", bind)
		require.Equal(t, []any{1.0, 1.0, "ERROR_UNKNOWN"}, answers, "NVML_ERROR_UNINITIALIZED is 1")
	}
}

func TestStartFailures(t *testing.T) {
	rows := []struct {
		name, result, kind, says string
	}{
		{"the kernel driver isn't running", "9", "UNAVAILABLE", "NVML_ERROR_DRIVER_NOT_LOADED (9): the NVIDIA " +
			"kernel driver is not loaded"},
		{"no permission", "4", "UNAVAILABLE", "NVML_ERROR_NO_PERMISSION (4): this user has no permission; check the " +
			"permissions of /dev/nvidiactl"},
		{"the driver was updated under a running kernel", "18", "UNAVAILABLE",
			"NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)"},
		{"a container's device rules", "17", "UNAVAILABLE", "NVML_ERROR_OPERATING_SYSTEM (17)"},
		{"a library of the driver is missing", "12", "UNAVAILABLE", "NVML_ERROR_LIBRARY_NOT_FOUND (12)"},
		{"no GPU", "28", "NOT_FOUND", "NVML_ERROR_GPU_NOT_FOUND (28)"},
		{"anything else", "999", "UNKNOWN", "NVML_ERROR_UNKNOWN (999)"},
		{"a number from the future", "777", "UNKNOWN", "NVML_ERROR (777)"},
	}
	var machines []string
	for _, row := range rows {
		machines = append(machines, oneCard+"fail nvmlInit_v2 "+row.result+"\n")
	}
	surveys := surveyWith(t, fakenvml.Build(t), machines)
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := surveys[i].Open
			require.Equal(t, row.kind, got.Kind)
			require.Contains(t, got.Text, "nvmlInit: ")
			require.Contains(t, got.Text, row.says)
		})
	}
}

func TestMemoryThatIsNotTold(t *testing.T) {
	got := surveyFake(t, oneCard+"fail nvmlDeviceGetMemoryInfo 3\n").Cards[0].Use[cardUUID]
	require.Equal(t, "UNIMPLEMENTED", got.MemoryFailed.Kind)
	require.Contains(t, got.MemoryFailed.Text, "shares the host's")
	require.Equal(t, failed{}, got.ProcessesFailed, "such GPUs do tell who uses them")
	require.Len(t, got.Processes, 3)
}

func TestMemoryThatMayNotBeAsked(t *testing.T) {
	got := surveyFake(t, divided+"fail nvmlDeviceGetMemoryInfo 4 "+cardUUID+"\n").Cards[0].Use
	require.Equal(t, "UNAVAILABLE", got[cardUUID].MemoryFailed.Kind)
	require.Equal(t, failed{}, got[migUUID].MemoryFailed, "a container's instance is its own to ask about")
}

func TestProcessesThatAreNotTold(t *testing.T) {
	none := "fail nvmlDeviceGetComputeRunningProcesses_v3 3\nfail nvmlDeviceGetGraphicsRunningProcesses_v3 3\n" +
		"fail nvmlDeviceGetMPSComputeRunningProcesses_v3 3\n"
	got := surveyFake(t, oneCard+none).Cards[0].Use[cardUUID]
	require.Equal(t, "UNIMPLEMENTED", got.ProcessesFailed.Kind)
	require.Equal(t, failed{}, got.MemoryFailed)
}

func TestALostCardHidesNoOther(t *testing.T) {
	got := surveyFake(t, divided+"fail nvmlDeviceGetHandleByIndex_v2 15 "+cardUUID+"\n")
	require.Equal(t, failed{}, got.CardsFailed)
	require.Len(t, got.Cards, 2)
	require.Contains(t, got.Cards[0].Failed, "NVML_ERROR_GPU_IS_LOST (15)")
	require.Empty(t, got.Cards[1].Failed)
	require.Equal(t, "Tesla T4", got.Cards[1].Card.Name)
}

// TestEveryCallFails makes each call of a survey fail in turn: nothing crashes, and the error contains the call's name.
// A function that the driver lacks is reported in the same way, unless its absence has a meaning.
func TestEveryCallFails(t *testing.T) {
	library := fakenvml.Build(t)
	calls := callsOf(t, library, divided)
	require.Greater(t, len(calls), 15)
	var machines []string
	for _, call := range calls {
		machines = append(machines, divided+"fail "+call+" 999\n", divided+"fail "+call+" 13\n")
	}
	surveys := surveyWith(t, library, machines)
	for i, call := range calls {
		t.Run(call, func(t *testing.T) {
			name, _, _ := strings.Cut(call, "_v")
			require.Contains(t, all(surveys[2*i]), name)
			require.Contains(t, all(surveys[2*i]), "NVML_ERROR_UNKNOWN (999)")
			if optional[name] {
				require.Empty(t, all(surveys[2*i+1]))
			} else {
				require.Contains(t, all(surveys[2*i+1]), "NVML_ERROR_FUNCTION_NOT_FOUND (13): this driver is too old")
			}
		})
	}
}

// optional are the functions that a driver may lack without an error: their absence has a meaning.
var optional = map[string]bool{
	"nvmlSystemGetCudaDriverVersion":          true, // not reported
	"nvmlDeviceGetMigMode":                    true, // no MIG
	"nvmlDeviceGetAddressingMode":             true, // the GPU's own memory, as far as is known
	"nvmlDeviceGetComputeRunningProcesses":    true, // the other lists are reported
	"nvmlDeviceGetMPSComputeRunningProcesses": true,
	"nvmlDeviceGetGraphicsRunningProcesses":   true,
}

// callsOf are the functions of NVML that a survey calls.
func callsOf(t *testing.T, library, machine string) []string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	surveyWith(t, library, []string{machine}, "FAKE_NVML_LOG="+log)
	written, err := os.ReadFile(log)
	require.NoError(t, err)
	calls := strings.Fields(string(written))
	slices.Sort(calls)
	return slices.Compact(calls)
}

// all returns every error text in a survey.
func all(s survey) string {
	texts := []string{s.Open.Text, s.SystemFailed.Text, s.CardsFailed.Text, s.Close.Text}
	for _, card := range s.Cards {
		texts = append(texts, card.Failed)
		for _, use := range card.Use {
			texts = append(texts, use.MemoryFailed.Text, use.ProcessesFailed.Text)
		}
	}
	return strings.TrimSpace(strings.Join(texts, "\n"))
}

// TestKindsOfMemory: some drivers of GPUs that share the host's memory report numbers, so what counts is the name, too.
func TestKindsOfMemory(t *testing.T) {
	named := func(name string) string {
		return "driver 580.95.05\ncuda 13000\ncard " + cardUUID + " domain=0 bus=1 device=0 cc=12.1 mig=none " +
			"total=1048576 used=0 " + name + "\n"
	}
	rows := []struct {
		name, machine string
		kind          gpu.MemoryKind
	}{
		{"a card", named("NVIDIA H100 80GB HBM3"), gpu.Dedicated},
		{"a card whose driver mirrors the host's pages", named("NVIDIA H100 80GB HBM3") + "addressing hmm\n",
			gpu.Dedicated},
		{"no memory of its own", named("NVIDIA Something New") + "fail nvmlDeviceGetMemoryInfo 3\n", gpu.Unified},
		{"a GB10", named("NVIDIA GB10") + "addressing ats\nfail nvmlDeviceGetMemoryInfo 3\n", gpu.Unified},
		{"an N1X, whose numbers are plausible", named("NVIDIA N1X"), gpu.Unified},
		{"a Jetson with wrong numbers", named("Orin (nvgpu)"), gpu.Unified},
		{"the host's page tables", named("NVIDIA GH200 480GB") + "addressing ats\n", gpu.Coherent},
		{"an old driver", named("NVIDIA GH200 480GB") + "fail nvmlDeviceGetAddressingMode 13\n", gpu.Dedicated},
	}
	var machines []string
	for _, row := range rows {
		machines = append(machines, row.machine)
	}
	surveys := surveyWith(t, fakenvml.Build(t), machines)
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := surveys[i].Cards[0]
			require.Empty(t, got.Failed)
			require.Equal(t, row.kind, got.Card.MemoryKind)
		})
	}
}
