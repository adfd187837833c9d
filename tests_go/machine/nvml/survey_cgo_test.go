//go:build cgo

package nvml_test

import (
	"os"
	"strings"
	"testing"

	upstream "github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/nvml"
	"gpuconf/tests_go/machine/fakenvml"
)

// survey is everything that a Monitor reports about a machine.
type survey struct {
	Open   failed
	System gpu.System
	SystemFailed,
	CardsFailed failed
	Cards     []cardSurvey
	Close     failed
	CUDA      bool // whether libcuda was loaded
	AfterHand failed
}

type cardSurvey struct {
	Card   gpu.Card
	Failed string
	Use    map[string]useSurvey // by UUID, of the card and its instances
}

type useSurvey struct {
	Memory          gpu.MemoryUse
	MemoryFailed    failed
	Processes       []gpu.Process
	ProcessesFailed failed
}

// failed is an error as a user sees it. The zero value is success.
type failed struct{ Kind, Text string }

func toFailed(err error) failed {
	if err == nil {
		return failed{}
	}
	return failed{status.CodeOf(err).String(), err.Error()}
}

func init() {
	jobs["survey"] = func() any { return surveyHere() }
	jobs["surveys"] = func() any {
		var all []survey
		for _, machine := range strings.Split(os.Getenv("NVML_TEST_MACHINES"), ":") {
			_ = os.Setenv("FAKE_NVML", machine) // the fake reads it at each start
			all = append(all, surveyHere())
		}
		return all
	}
	// The result of go-nvml in a program that calls it before the library is loaded.
	jobs["before"] = func() any {
		_, count := upstream.DeviceGetCount()
		text := upstream.ErrorString(upstream.ERROR_UNKNOWN)
		return []any{upstream.Shutdown(), count, text}
	}
}

func surveyHere() (s survey) {
	monitor, err := nvml.Open()
	if s.Open = toFailed(err); err != nil {
		return s
	}
	s.System, err = monitor.System()
	s.SystemFailed = toFailed(err)
	cards, err := monitor.Cards()
	s.CardsFailed = toFailed(err)
	for _, card := range cards {
		s.Cards = append(s.Cards, surveyCard(monitor, card))
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	s.CUDA = strings.Contains(string(maps), "libcuda")
	s.Close = toFailed(monitor.Close())
	_, err = monitor.Cards()
	s.AfterHand = toFailed(err)
	return s
}

func surveyCard(monitor gpu.Monitor, card gpu.Card) (s cardSurvey) {
	s.Card, s.Use = card, map[string]useSurvey{}
	if card.Err != nil {
		s.Failed = card.Err.Error()
		s.Card.Err = nil
	}
	uuids := []string{card.UUID}
	for _, instance := range card.Instances {
		uuids = append(uuids, instance.UUID)
	}
	for _, uuid := range uuids {
		memory, memoryErr := monitor.Memory(uuid)
		processes, processesErr := monitor.Processes(uuid)
		s.Use[uuid] = useSurvey{memory, toFailed(memoryErr), processes, toFailed(processesErr)}
	}
	return s
}

// surveyFake surveys a described machine in a new process.
func surveyFake(t *testing.T, machine string, environment ...string) survey {
	t.Helper()
	return surveyWith(t, fakenvml.Build(t), []string{machine}, environment...)[0]
}

// surveyWith surveys several machines, one after another, in one process.
func surveyWith(t *testing.T, library string, machines []string, environment ...string) []survey {
	t.Helper()
	var described []string
	for _, machine := range machines {
		described = append(described, fakenvml.Describe(t, machine))
	}
	environment = append(environment, "LD_LIBRARY_PATH="+library, "NVML_TEST_MACHINES="+strings.Join(described, ":"))
	return runJob[[]survey](t, "surveys", environment...)
}
