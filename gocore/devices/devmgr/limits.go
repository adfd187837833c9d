// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
)

// InForce is the limit of all pools of a GPU together.
type InForce struct {
	Bytes uint64 // the sum of the limits of the pools; before they are built, of the limits that are set; 0: none
	Known bool   // whether Bytes does not depend on what memory is free when the pools are built
	Why   string // why it is a part of GPUCONF_LIMIT, as the end of a sentence, or ""
}

// InForce returns the limit that holds on the physical device at index, or will hold once the pools are built with env.
// It uses no GPU.
func (m *Manager) InForce(index int, env config.Env) (InForce, error) {
	device, ok := m.Details(index)
	if !ok {
		return InForce{}, nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return InForce{}, errClosed()
	}
	ceiling, err := env.Ceiling(device.Ordinal, len(m.listed))
	if err != nil {
		return InForce{}, err
	}
	inForce := InForce{Why: ceiling.Why()}
	for _, p := range m.gpus {
		if p.device.Ordinal == device.Ordinal {
			inForce.Bytes += p.limitBytes
			inForce.Known = inForce.Known || p.limited || ceiling.Set
		}
	}
	if inForce.Bytes > 0 {
		return inForce, nil
	}
	limits := m.state.Limits(index)
	for _, limit := range limits {
		limit, _ = ceiling.Lower("", limit, inForce.Bytes)
		inForce.Bytes, inForce.Known = inForce.Bytes+limit, true
	}
	if len(limits) == 0 && ceiling.Set && ceiling.Bytes <= device.TotalBytes {
		inForce.Bytes, inForce.Known = ceiling.Bytes, true
	}
	return inForce, nil
}

// noticeOvercommitted reports cards whose limits add up to more than their memory. TensorFlow allows that, and so does
// gpuconf: a limit is not a reservation, and the pools may not need it all at once. One limit above the card's memory
// is a mistake, which programs without logging see, too. With unified memory the host holds the excess, which is slow
// but works.
func (m *Manager) noticeOvercommitted(pools []*pool) {
	for _, first := range pools {
		if firstOf(pools, first.device.Ordinal) != first {
			continue
		}
		limits, bytes := promised(pools, first.device.Ordinal)
		if bytes <= first.device.TotalBytes {
			continue
		}
		level, rest := "warning", "the excess is not available"
		if first.spills() {
			level, rest = "info", "unified memory that does not fit on the GPU is kept in host memory"
		}
		if hint := wrongUnit(pools, first.device.Ordinal); hint != "" {
			level, rest = "mistake", rest+hint
		} else if level == "warning" && limitBeyond(pools, first.device) {
			level = "mistake"
		}
		m.noticef(level, "%s %s, and %s has only %s: %s",
			limits, human.Bytes(bytes), first.device.Name, human.Bytes(first.device.TotalBytes), rest)
	}
}

// promised adds up the limits on an ordinal that are not bounded by the card's memory (explicit limits, and fractions
// of unified memory) and describes whose they are.
func promised(pools []*pool, ordinal int) (limits string, bytes uint64) {
	var count uint64
	what := "limit"
	for _, p := range pools {
		if !p.limited && !p.unified || p.device.Ordinal != ordinal {
			continue
		}
		if p.limited {
			what = "memory_limit"
		}
		count++
		if count == 1 {
			limits = fmt.Sprintf("the %s of %s is", what, shortName(p.number))
		}
		bytes += min(p.limitBytes, math.MaxUint64-bytes)
	}
	if count > 1 {
		limits = fmt.Sprintf("the %ss of %s add up to", what, human.Count(count, "logical GPU"))
	}
	return limits, bytes
}

const mib = 1 << 20

// limitBeyond reports whether the limit of one logical GPU is more than its card has.
func limitBeyond(pools []*pool, device gpu.Device) bool {
	return slices.ContainsFunc(pools, func(p *pool) bool {
		return p.limited && p.device.Ordinal == device.Ordinal && p.limitBytes > device.TotalBytes
	})
}

// byFar is how many times a GPU's memory a limit must be to look like a number in the wrong unit.
const byFar = 8

// wrongUnit returns what was probably meant by a limit on an ordinal that is far beyond the GPU's memory, as the end of
// a sentence, or "".
func wrongUnit(pools []*pool, ordinal int) string {
	for _, p := range pools {
		if hint := p.wrongUnit(); hint != "" && p.device.Ordinal == ordinal {
			return hint
		}
	}
	return ""
}

// wrongUnit returns what was probably meant by a limit far beyond the GPU's memory, as the end of a sentence, or "".
// TensorFlow accepts such a limit, so gpuconf does.
func (p *pool) wrongUnit() string {
	total := p.device.TotalBytes
	if p.limitBytes/byFar < total {
		return ""
	}
	switch given := p.limitBytes / mib; {
	case !p.limited:
		times := p.limitBytes / total
		if times > 100 {
			return ". per_process_gpu_memory_fraction is a fraction: 0.5 is half of the GPU's memory"
		}
		return fmt.Sprintf(". per_process_gpu_memory_fraction is a fraction, and not a percentage: write %g for %d%%",
			float64(times)/100, times)
	case given/mib > 0 && given <= byFar*total:
		return fmt.Sprintf(". memory_limit is a number of MiB, and %d looks like bytes: write %d", given, given/mib)
	}
	return ". memory_limit is a number of MiB"
}

// budget returns the budget of this process's job on a pool's GPU; ok is false if it has none.
func (m *Manager) budget(p *pool) (budget gpu.Budget, ok bool) {
	if driver, knows := m.driver.(gpu.Budgeted); knows {
		return driver.Budget(p.device.Ordinal)
	}
	return gpu.Budget{}, false
}

// mostOfJob is the number of a job's other processes that a report lists.
const mostOfJob = 5

// describeBudget is the line about the job's budget in a report, with the other processes that have most of it.
func (m *Manager) describeBudget(p *pool, b gpu.Budget) string {
	sign := "="
	if b.LimitBytes < b.PoolBytes+b.OutsideBytes { // while lent memory is returned
		sign = "<"
	}
	text := fmt.Sprintf("  memory of the job: limit %s %s pools %s + outside %s + free %s", human.Exact(b.LimitBytes),
		sign, human.Bytes(b.PoolBytes), human.Bytes(b.OutsideBytes), human.Bytes(b.FreeBytes))
	others := slices.DeleteFunc(m.driver.(gpu.Budgeted).BudgetProcesses(p.device.Ordinal),
		func(other gpu.Process) bool { return other.PID == os.Getpid() })
	slices.SortFunc(others, func(a, b gpu.Process) int { return cmp.Compare(b.UsedBytes, a.UsedBytes) })
	for i, other := range others[:min(len(others), mostOfJob)] {
		before := ", "
		if i == 0 {
			before = "; other processes: "
		}
		text += fmt.Sprintf("%sPID %d %s", before, other.PID, human.Bytes(other.UsedBytes))
	}
	return text + "\n"
}
