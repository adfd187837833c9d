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
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/nvml"
)

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
