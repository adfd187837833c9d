// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"sync"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/meminfo"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/machine/nvml"
	"gpuconf/gocore/tf/config"
)

// Survey is what is known of every card of the machine, whatever CUDA_VISIBLE_DEVICES says, without CUDA.
type Survey struct {
	Spec    string       // of the simulated machine; "" for the real one
	System  gpu.System   // the driver; zero for a simulated machine
	WhyNone string       // why nothing is known about cards; "" if something is
	Cards   []CardSurvey // by Card.Index
}

// CardSurvey is one card. Errors are texts for people.
type CardSurvey struct {
	gpu.Card
	Memory         Amounts          // of the whole card
	Errors         []string         // what could not be found out
	Processes      []gpu.Process    // as NVML lists them; none for a simulated card
	ProcessesError string           // why the processes are unknown; "" if they are known
	Instances      []InstanceSurvey // none unless MIG is on
}

// InstanceSurvey is a MIG instance of a card.
type InstanceSurvey struct {
	gpu.Instance
	Memory Amounts // of the instance alone
}

// Amounts is a memory's size and use, each nil if unknown, and where the numbers come from.
type Amounts struct {
	TotalBytes, UsedBytes, FreeBytes *uint64 // of all processes together
	Source                           string  // "NVML", "/proc/meminfo", "simulation"; "" if unknown
}

// surveyor keeps NVML open between surveys: starting it takes milliseconds, and a live view asks once a second.
var surveyor struct {
	sync.Mutex
	monitor gpu.Monitor // guarded by Mutex; nil until the first survey, and after a failure
}

// Survey returns the cards of the machine. If there are none, or nothing can be found out, WhyNone says why.
func (p *State) Survey(env config.Env) (Survey, error) {
	if err := Alive(); err != nil {
		return Survey{}, err
	}
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	if asked == "" {
		asked = env["GPUCONF_SIMULATE"]
	}
	if asked != "" {
		return surveySimulated(asked)
	}
	surveyor.Lock()
	defer surveyor.Unlock()
	found, err := surveyLocked()
	if err != nil {
		closeSurveyorLocked() // after an update of the driver, only a new start helps
		return Survey{WhyNone: err.Error()}, nil
	}
	return found, nil
}

// closeSurveyor ends NVML, which a process that simulates GPUs must not have.
func closeSurveyor() {
	surveyor.Lock()
	defer surveyor.Unlock()
	closeSurveyorLocked()
}

func closeSurveyorLocked() {
	if surveyor.monitor != nil {
		_ = surveyor.monitor.Close()
		surveyor.monitor = nil
	}
}

func surveyLocked() (s Survey, err error) {
	if surveyor.monitor == nil {
		if surveyor.monitor, err = nvml.Open(); err != nil {
			surveyor.monitor = nil
			return Survey{}, err
		}
	}
	if s.System, err = surveyor.monitor.System(); err != nil {
		return Survey{}, err
	}
	cards, err := surveyor.monitor.Cards()
	if err != nil {
		return Survey{}, err
	}
	if len(cards) == 0 {
		s.WhyNone = "the NVIDIA driver lists no GPU"
	}
	for _, card := range cards {
		s.Cards = append(s.Cards, surveyCard(surveyor.monitor, card))
	}
	return s, nil
}

func surveyCard(monitor gpu.Monitor, card gpu.Card) CardSurvey {
	s := CardSurvey{Card: card}
	if card.Err != nil {
		s.Errors = strings.Split(card.Err.Error(), "\n")
	}
	if card.UUID == "" {
		s.ProcessesError = "the card cannot be identified"
		return s
	}
	var err error
	if s.Memory, err = amounts(monitor, card.UUID, card.MemoryKind); err != nil {
		s.Errors = append(s.Errors, err.Error())
	}
	if s.Processes, err = monitor.Processes(card.UUID); err != nil {
		s.ProcessesError = err.Error()
	}
	for _, instance := range card.Instances {
		memory, err := amounts(monitor, instance.UUID, gpu.Dedicated)
		if err != nil {
			s.Errors = append(s.Errors, err.Error())
		}
		s.Instances = append(s.Instances, InstanceSurvey{instance, memory})
	}
	return s
}

// amounts returns the memory of a card or an instance. For memory that a GPU shares with the host, it is the host's,
// and the use of the host's programs counts.
func amounts(monitor gpu.Monitor, uuid string, kind gpu.MemoryKind) (Amounts, error) {
	if kind == gpu.Unified {
		host, err := meminfo.Read()
		if err != nil {
			return Amounts{}, err
		}
		used := host.TotalBytes - host.AvailableBytes
		return Amounts{&host.TotalBytes, &used, &host.AvailableBytes, meminfo.Source}, nil
	}
	use, err := monitor.Memory(uuid)
	if err != nil {
		return Amounts{}, err
	}
	return Amounts{&use.TotalBytes, &use.UsedBytes, &use.FreeBytes, "NVML"}, nil
}

// firstInstance is the GPU instance id that a card's first instance of the smallest profile has.
const firstInstance = 7

// surveySimulated returns the cards of a specification. What processes use of them is only known to the processes.
func surveySimulated(asked string) (Survey, error) {
	spec, err := models.ParseSpec(asked)
	if err != nil {
		return Survey{}, err
	}
	s := Survey{Spec: spec.String()}
	for i, d := range spec.Devices() {
		card := CardSurvey{
			Card: gpu.Card{
				Index: i, UUID: d.UUID, PCIBusID: d.PCIBusID, Name: d.Name, ComputeMajor: d.ComputeMajor,
				ComputeMinor: d.ComputeMinor,
				MemoryKind:   d.MemoryKind, MIG: gpu.MIGAbsent,
			},
			Memory: Amounts{TotalBytes: &d.TotalBytes, Source: "simulation"},
		}
		if uuid, name, ok := spec.Cards[i].Parent(i); ok {
			instance := gpu.Instance{UUID: d.UUID, Name: d.Name, GPUInstanceID: firstInstance}
			card.Instances = []InstanceSurvey{{Instance: instance, Memory: card.Memory}}
			card.UUID, card.Name, card.MIG, card.Memory = uuid, name, gpu.MIGOn, Amounts{}
			card.Errors = []string{"nvmlDeviceGetMemoryInfo of " + uuid + ": NVML_ERROR_NO_PERMISSION (4), as in a " +
				"container with one of its MIG instances"}
		}
		s.Cards = append(s.Cards, card)
	}
	if len(s.Cards) == 0 {
		return s, status.Errorf(status.Internal, "the simulated machine %q has no GPU", asked)
	}
	return s, nil
}
