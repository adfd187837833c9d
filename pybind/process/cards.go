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
	"gpuconf/pybind/wire"
)

// surveyor keeps NVML open between surveys: starting it takes milliseconds, and a live view asks once a second.
var surveyor struct {
	sync.Mutex
	monitor gpu.Monitor // guarded by Mutex; nil until the first survey, and after a failure
}

// Survey returns the cards of the machine, whatever CUDA_VISIBLE_DEVICES says, without CUDA. If there are none, or
// nothing can be found out, WhyNone says why.
func (p *State) Survey(env config.Env) (wire.Survey, error) {
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
	survey, err := surveyLocked()
	if err != nil {
		closeSurveyorLocked() // after an update of the driver, only a new start helps
		return wire.Survey{WhyNone: wire.Maybe(err.Error(), "")}, nil
	}
	return survey, nil
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

func surveyLocked() (s wire.Survey, err error) {
	if surveyor.monitor == nil {
		if surveyor.monitor, err = nvml.Open(); err != nil {
			surveyor.monitor = nil
			return s, err
		}
	}
	system, err := surveyor.monitor.System()
	if err != nil {
		return s, err
	}
	s.Driver, s.HostPIDs = wire.Maybe(system.DriverVersion, ""), system.HostPIDs
	s.CUDA = wire.Maybe([2]int{system.CUDAMajor, system.CUDAMinor}, [2]int{})
	cards, err := surveyor.monitor.Cards()
	if err != nil {
		return s, err
	}
	if len(cards) == 0 {
		s.WhyNone = wire.Maybe("the NVIDIA driver lists no GPU", "")
	}
	for _, card := range cards {
		s.Cards = append(s.Cards, surveyCard(surveyor.monitor, card))
	}
	return s, nil
}

var migWords = map[gpu.MIGMode]string{gpu.MIGUnknown: "unknown", gpu.MIGAbsent: "none", gpu.MIGOff: "off",
	gpu.MIGOn: "on"}

func surveyCard(monitor gpu.Monitor, c gpu.Card) wire.Card {
	card := wire.Card{Index: c.Index, UUID: c.UUID, Name: c.Name, PCIBusID: c.PCIBusID,
		ComputeCapability: [2]int{c.ComputeMajor, c.ComputeMinor}, MIG: migWords[c.MIG],
		Memory: wire.CardMemory{Kind: c.MemoryKind.String()}}
	if c.Err != nil {
		card.Errors = strings.Split(c.Err.Error(), "\n")
	}
	if c.UUID == "" {
		card.ProcessesError = wire.Maybe("the card cannot be identified", "")
		return card
	}
	var err error
	if card.Memory, err = memoryOf(monitor, c.UUID, c.MemoryKind); err != nil {
		card.Errors = append(card.Errors, err.Error())
	}
	processes, err := monitor.Processes(c.UUID)
	if err != nil {
		card.ProcessesError = wire.Maybe(err.Error(), "")
	}
	for _, p := range processes {
		user := wire.CardProcess{PID: p.PID}
		if p.BytesKnown {
			user.Bytes = &p.UsedBytes
		}
		for _, instance := range c.Instances {
			if instance.GPUInstanceID == p.GPUInstanceID && instance.ComputeInstanceID == p.ComputeInstanceID {
				user.Instance = &instance.UUID
			}
		}
		card.Processes = append(card.Processes, user)
	}
	for _, instance := range c.Instances {
		memory, err := memoryOf(monitor, instance.UUID, gpu.Dedicated)
		if err != nil {
			card.Errors = append(card.Errors, err.Error())
		}
		card.Instances = append(card.Instances,
			wire.CardInstance{UUID: instance.UUID, Name: instance.Name, Memory: memory})
	}
	return card
}

// memoryOf returns the memory of a card or an instance. For memory that a GPU shares with the host, it is the host's,
// and the use of the host's programs counts.
func memoryOf(monitor gpu.Monitor, uuid string, kind gpu.MemoryKind) (wire.CardMemory, error) {
	memory := wire.CardMemory{Kind: kind.String()}
	if kind == gpu.Unified {
		host, err := meminfo.Read()
		if err == nil {
			used := host.TotalBytes - host.AvailableBytes
			memory.Total, memory.Used, memory.Free = &host.TotalBytes, &used, &host.AvailableBytes
			memory.Source = wire.Maybe(meminfo.Source, "")
		}
		return memory, err
	}
	use, err := monitor.Memory(uuid)
	if err == nil {
		memory.Total, memory.Used, memory.Free = &use.TotalBytes, &use.UsedBytes, &use.FreeBytes
		memory.Source = wire.Maybe("NVML", "")
	}
	return memory, err
}

// surveySimulated returns the cards of a specification. What processes use of them is only known to the processes.
func surveySimulated(asked string) (wire.Survey, error) {
	spec, err := models.ParseSpec(asked)
	if err != nil {
		return wire.Survey{}, err
	}
	s := wire.Survey{Simulated: wire.Maybe(spec.String(), "")}
	for i, d := range spec.Devices() {
		card := wire.Card{
			Index: i, UUID: d.UUID, PCIBusID: d.PCIBusID, Name: d.Name,
			ComputeCapability: [2]int{d.ComputeMajor, d.ComputeMinor}, MIG: migWords[gpu.MIGAbsent],
			Memory: wire.CardMemory{Kind: d.MemoryKind.String(), Total: &d.TotalBytes,
				Source: wire.Maybe("simulation", "")},
		}
		if uuid, name, ok := spec.Cards[i].Parent(i); ok {
			memory := card.Memory
			memory.Kind = gpu.Dedicated.String()
			card.Instances = []wire.CardInstance{{UUID: d.UUID, Name: d.Name, Memory: memory}}
			card.UUID, card.Name, card.MIG = uuid, name, migWords[gpu.MIGOn]
			card.Memory = wire.CardMemory{Kind: d.MemoryKind.String()}
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
	return sentence(what, clauses, len(list))
}

// sentence lists the first processes of so many.
func sentence(what string, clauses []string, all int) string {
	if rest := all - len(clauses); rest > 0 {
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
	return sentence("Other processes on this GPU, by the ledger", clauses, len(list))
}

// nameOf returns the name of a process, or "".
func nameOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(name), "?"))
}
