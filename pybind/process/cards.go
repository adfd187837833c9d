// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuconf/gocore/base/human"
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

// neighbors describes the other processes on real GPUs, for the report of a GPU that is full. A program may try to
// allocate again and again, and starting NVML takes milliseconds, so an answer is kept for a second.
var neighbors struct {
	sync.Mutex
	uuid string    // guarded by Mutex, as are all fields below
	at   time.Time // of the answer; the zero value: none
	text string
}

const keptFor = time.Second

// describeNeighbors returns sentences about the other processes that use a GPU, as far as NVML reports them; "" if it
// does not.
func describeNeighbors(d gpu.Device) string {
	neighbors.Lock()
	defer neighbors.Unlock()
	if neighbors.uuid != d.UUID || neighbors.at.IsZero() || time.Since(neighbors.at) > keptFor {
		neighbors.text = queryNeighbors(d)
		neighbors.uuid, neighbors.at = d.UUID, time.Now()
	}
	return neighbors.text
}

func queryNeighbors(d gpu.Device) string {
	monitor, err := nvml.Open()
	if err != nil {
		return ""
	}
	defer func() { _ = monitor.Close() }()
	system, err := monitor.System()
	if err != nil {
		return ""
	}
	list, err := monitor.Processes(d.UUID)
	if err != nil {
		return ""
	}
	return sentencesOf(list, system.HostPIDs)
}

// mostNeighbors is the number of processes that a report lists.
const mostNeighbors = 5

// sentencesOf describes processes. With hostPIDs, which process is this one is unknown.
func sentencesOf(list []gpu.Process, hostPIDs bool) string {
	what := "Other processes on this GPU"
	if hostPIDs {
		what = "Processes on this GPU, this one included, by their PID on the host"
	} else {
		list = slices.DeleteFunc(slices.Clone(list), func(p gpu.Process) bool { return p.PID == os.Getpid() })
	}
	if len(list) == 0 {
		return ""
	}
	slices.SortStableFunc(list, func(p, q gpu.Process) int { return cmp.Compare(q.UsedBytes, p.UsedBytes) })
	var clauses []string
	for _, p := range list[:min(len(list), mostNeighbors)] {
		clause := fmt.Sprintf("PID %d", p.PID)
		if name := nameOf(p.PID); name != "" && !hostPIDs {
			clause += " (" + name + ")"
		}
		if p.BytesKnown {
			clause += " uses " + human.Exact(p.UsedBytes)
		}
		clauses = append(clauses, clause)
	}
	if rest := len(list) - mostNeighbors; rest > 0 {
		clauses = append(clauses, fmt.Sprintf("and %d more", rest))
	}
	return " " + what + ": " + strings.Join(clauses, ", ") + "."
}

// describeLeases returns a sentence about the other processes that lease or use memory of a simulated GPU, as far as
// the ledger that this process publishes its figures in reports them; "" without one. It is called with locks of the
// devices held, and takes none of State's.
func (p *State) describeLeases(d gpu.Device) string {
	own := p.published.Load()
	if own == nil {
		return ""
	}
	list, err := own.Neighbors(d.UUID)
	if err != nil || len(list) == 0 {
		return ""
	}
	var clauses []string
	for _, n := range list[:min(len(list), mostNeighbors)] {
		clause := n.Name
		if n.Local {
			clause = fmt.Sprintf("PID %d", n.PID)
			if n.Name != "" {
				clause += " (" + n.Name + ")"
			}
		} else {
			clause = strings.TrimSpace(clause + " in another container")
		}
		if n.Leased > 0 {
			clause += " leases " + human.Exact(n.Leased) + " and"
		}
		clauses = append(clauses, clause+" uses "+human.Exact(n.InUse))
	}
	if rest := len(list) - mostNeighbors; rest > 0 {
		clauses = append(clauses, fmt.Sprintf("and %d more", rest))
	}
	return " Other processes on this GPU, by the ledger: " + strings.Join(clauses, ", ") + "."
}

// nameOf returns the name of a process, or "".
func nameOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(name), "?"))
}
