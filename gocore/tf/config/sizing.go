// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
)

const mib = 1 << 20

// Memory is the input for the size of a GPU's pool, read when the pool is created.
type Memory struct {
	AvailableBytes uint64 // the free memory of the GPU; if Shared, what the host can still provide
	TotalBytes     uint64 // all memory of the GPU
	ComputeMajor   int    // 9 of compute capability 9.0
	Shared         bool   // the GPU shares the memory of the host, which must keep some of it
	Sizing
}

// Sizing holds a session's options for the size of pools. A zero field was not set.
type Sizing struct {
	Fraction  float64 // per_process_gpu_memory_fraction
	SystemMiB int64   // gpu_system_memory_size_in_mb: memory to leave to the system
	Shares    int64   // num_virtual_devices_per_gpu: how many pools share a GPU evenly
}

// DefaultLimit returns the limit of a GPU without an explicit one.
//
// It is the available memory minus a reserve for the system. There is no reserve if it would take everything; it
// changes abruptly at 2 GiB. If the host shares the memory, the reserve is at least an eighth of it, because a host
// without memory stops working; TensorFlow makes no difference there. A fraction refers to total memory instead,
// without a reserve; above 1 it needs unified memory. SystemMiB overrides both, and TF_DEVICE_MIN_SYS_MEMORY_IN_MB
// overrides all three.
func DefaultLimit(m Memory, env Env) (limitBytes uint64, notices []Notice, err error) {
	if m.Fraction == 0 {
		limitBytes = m.AvailableBytes
		if reserve := max(SystemReserve(m.AvailableBytes, m.ComputeMajor), m.hostReserve()); reserve < limitBytes {
			limitBytes -= reserve
		}
	} else if limitBytes, err = fractionLimit(m); err != nil {
		return 0, nil, err
	}
	if m.SystemMiB > 0 {
		limitBytes, notices = m.leave(uint64(m.SystemMiB), limitBytes, notices)
	}
	reserveMiB, set, said := env.systemMemoryMiB()
	notices = append(notices, said...)
	if set {
		limitBytes, notices = m.leave(reserveMiB, limitBytes, notices)
	}
	return limitBytes / uint64(max(m.Shares, 1)), notices, nil
}

// leave returns the limit that leaves reserveMiB to the system, or the previous limit if less than that is available.
func (m Memory) leave(reserveMiB, before uint64, notices []Notice) (uint64, []Notice) {
	if reserveMiB <= m.AvailableBytes/mib {
		return m.AvailableBytes - reserveMiB*mib, notices
	}
	return before,
		append(notices, warning("The requested reserved device memory %s is larger than the available memory of %s. "+
			"The request is ignored.", humanMiB(reserveMiB), human.Bytes(m.AvailableBytes)))
}

// SystemReserve returns TensorFlow's reserve for the system, by available memory and compute capability.
func SystemReserve(availableBytes uint64, computeMajor int) uint64 {
	switch {
	case availableBytes < 2<<30:
		return 225 * mib
	case computeMajor <= 6:
		return 500 * mib
	case computeMajor == 7:
		return 1050 * mib
	case computeMajor == 8:
		return 1536 * mib
	}
	return 1800 * mib
}

// hostReserve is what the host keeps of memory that it shares.
func (m Memory) hostReserve() uint64 {
	if m.Shared {
		return m.TotalBytes / 8
	}
	return 0
}

func fractionLimit(m Memory) (uint64, error) {
	if m.Fraction > 1 && m.ComputeMajor < 6 {
		return 0, errNoOversubscription()
	}
	bytes := float64(m.TotalBytes) * m.Fraction
	if !(m.Fraction > 0 && bytes < math.MaxInt64) { // NaN fails too
		return 0, status.Errorf(status.InvalidArgument,
			"per_process_gpu_memory_fraction is %v: it must be a positive number, and that fraction of %s must be "+
				"less than 2**63 bytes",
			m.Fraction, human.Bytes(m.TotalBytes))
	}
	return uint64(bytes), nil
}

func errNoOversubscription() error { // N17
	return status.Errorf(status.Internal, "Unified memory on GPUs with compute capability lower than 6.0 "+
		"(pre-Pascal class GPUs) does not support oversubscription.")
}

// ExplicitLimit converts a memory_limit in MiB to bytes: rounded to float32, as in TensorFlow's configuration message,
// then truncated to whole MiB. 0.5 becomes 0, a pool that serves nothing. TensorFlow turns a negative or too large
// number into some other limit; here it is an InvalidArgument error.
func ExplicitLimit(memoryLimitMiB float64) (limitBytes uint64, err error) {
	const tooMany = math.MaxInt64 / mib // MiB that no longer fit into 63 bits of bytes
	rounded := float64(float32(memoryLimitMiB))
	if !(memoryLimitMiB >= 0 && rounded <= tooMany) { // NaN fails too
		return 0, status.Errorf(status.Value,
			"memory_limit is %s: it must be a number of MiB from 0 to less than 2**43", plainFloat(memoryLimitMiB))
	}
	return uint64(rounded) * mib, nil
}

// plainFloat formats a number as the caller most likely wrote it.
func plainFloat(v float64) string {
	if math.Abs(v) < 1e16 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func humanMiB(n uint64) string {
	if n > math.MaxUint64/mib {
		return fmt.Sprintf("%dMiB", n)
	}
	return human.Bytes(n * mib)
}

// Ceiling is the most memory that all pools of a process may have together on one GPU, whatever the configuration
// requests. The process inherits it in its environment; `gpuconf run` sets it to the memory that it has leased.
type Ceiling struct {
	Bytes  uint64 // the maximum for all pools together; 0 if the GPU belongs to another rank; ignored unless Set
	Set    bool   // whether there is a ceiling
	by     string // the variable that sets it
	setter string // what has set the variable, a lease's memory or another setting; "" if the user has
	why    string // who has the rest, for the notice; "" if the process has all
}

// The variables of NVIDIA's container toolkit: the memory of each GPU that is guaranteed, and the maximum, in MiB.
const containerRequest, containerLimit = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"

// Ceiling returns the ceiling of the GPU with a CUDA ordinal, one of gpus: the lower of GPUCONF_LIMIT and the
// container's limit.
//
// The processes of a job share the ceiling by LOCAL_RANK, as torchrun numbers them: a process uses the GPU with its
// rank, modulo the number of GPUs. The ranks of a GPU have equal parts of it, and the others nothing. A GPU without a
// rank is shared by all. So the parts never add up to more than the ceiling.
func (e Env) Ceiling(ordinal, gpus int) (Ceiling, error) {
	c, err := e.limit()
	if err != nil || !c.Set {
		return c, err
	}
	rank, errRank := strconv.Atoi(e["LOCAL_RANK"])
	ranks, errRanks := strconv.Atoi(e["LOCAL_WORLD_SIZE"])
	if errRank != nil || errRanks != nil || rank < 0 || rank >= ranks || ranks == 1 || ordinal >= gpus {
		return c, nil
	}
	switch {
	case ordinal >= ranks: // no rank uses this GPU
		c.Bytes /= uint64(ranks)
		c.why = fmt.Sprintf("%d ranks share this GPU", ranks)
	case rank%gpus != ordinal:
		c.Bytes = 0
		c.why = fmt.Sprintf("this GPU belongs to LOCAL_RANK %d, and this process is LOCAL_RANK %d", ordinal, rank)
	default:
		if sharing := (ranks - ordinal + gpus - 1) / gpus; sharing > 1 {
			c.Bytes /= uint64(sharing)
			c.why = fmt.Sprintf("%d of %d ranks share this GPU", sharing, ranks)
		}
	}
	return c, nil
}

// limit returns the ceiling for all ranks of a GPU together.
func (e Env) limit() (c Ceiling, err error) {
	if text := e["GPUCONF_LIMIT"]; text != "" {
		bytes, err := human.ParseSize(text)
		if err != nil {
			return c, status.Errorf(status.InvalidArgument, "GPUCONF_LIMIT=%q %w", text, err)
		}
		if bytes < mib {
			return c, status.Errorf(status.InvalidArgument, "GPUCONF_LIMIT=%q must be at least 1 MiB, such as "+
				"'6GiB'", text)
		}
		c = Ceiling{Bytes: bytes, Set: true, by: "GPUCONF_LIMIT"}
		// What a lease has set may have been lowered since.
		if lease, setter, _ := strings.Cut(e["GPUCONF_LIMIT_FROM"], " "); lease == text {
			c.setter = setter
		}
	}
	most, err := e.ofContainer(containerLimit)
	if err != nil || most == 0 {
		return c, err
	}
	if requested, err := e.ofContainer(containerRequest); err != nil {
		return c, err
	} else if requested > most {
		return c, status.Errorf(status.InvalidArgument, "%s=%s is more than %s=%s",
			containerRequest, e[containerRequest], containerLimit, e[containerLimit])
	}
	if !c.Set || most < c.Bytes {
		c = Ceiling{Bytes: most, Set: true, by: containerLimit}
	}
	return c, nil
}

// ofContainer returns the bytes of a variable of NVIDIA's container toolkit, which takes digits alone; 0 if it is not
// set.
func (e Env) ofContainer(name string) (uint64, error) {
	if e[name] == "" {
		return 0, nil
	}
	number, err := strconv.ParseUint(e[name], 10, 43) // in bytes, it fits into 63 bits
	if err != nil || number == 0 {
		return 0, status.Errorf(status.InvalidArgument, "%s=%q must be a number of MiB, at least 1, such as 6144",
			name, e[name])
	}
	return number * mib, nil
}

// Default returns the limit of one of a GPU's pools that evenly share it, if nothing requests another one.
func (c Ceiling) Default(shares int64) uint64 { return c.Bytes / uint64(max(shares, 1)) }

// Raise says how a limit that the ceiling sets can be raised: a clause for the end of a sentence.
func (c Ceiling) Raise() string {
	if c.Bytes == 0 {
		return "use the GPU of this process: " + c.why
	}
	text := "raise GPUCONF_LIMIT, which sets this limit (gpuconf config --explain shows from where)"
	if c.by == containerLimit {
		text = "raise " + containerLimit + ", the container's limit"
	} else if c.setter != "" {
		text = "raise " + c.setter + ", which sets this limit"
	}
	if c.why != "" {
		text += "; " + c.why
	}
	return text
}

// Why says who has the rest of the ceiling, as a clause; "" if the process has all of it.
func (c Ceiling) Why() string { return c.why }

// Lower returns a requested limit, or what is left below the ceiling if that is less, with a notice. taken is the sum
// of the limits of the other pools on the GPU.
func (c Ceiling) Lower(pool string, requested, taken uint64) (uint64, []Notice) {
	left := c.Bytes - min(taken, c.Bytes)
	if !c.Set || requested <= left {
		return requested, nil
	}
	why := c.why
	if why != "" {
		why = ": " + why
	}
	return left, []Notice{warning("The limit of %s is lowered from %s to %s, which %s leaves for it%s.",
		pool, human.Bytes(requested), human.Bytes(left), c.by, why)}
}

// Candidate is a visible GPU that may become a physical device.
type Candidate struct {
	Ordinal         int    // the CUDA ordinal
	Name            string // the name that the driver reports
	PCIBusID        string // such as "0000:17:00.0"
	ComputeMajor    int    // 9 of compute capability 9.0
	ComputeMinor    int    // 0 of compute capability 9.0
	Multiprocessors int    // the number of streaming multiprocessors
}

// The minimum compute capability, and the number of multiprocessors that is enough whatever other GPUs the machine has.
const (
	minComputeMajor, minComputeMinor = 3, 5
	enoughMultiprocessors            = 8
)

// UsableGPUs returns the indices of the candidates that become physical devices. The others have too low a compute
// capability, or too few multiprocessors: fewer than TF_MIN_GPU_MULTIPROCESSOR_COUNT or, if that is not set, fewer than
// both 8 and the largest candidate.
func UsableGPUs(candidates []Candidate, env Env) (usable []int, notices []Notice) {
	minimum, notices := env.minMultiprocessors(defaultMinMultiprocessors(candidates))
	for i, c := range candidates {
		switch {
		case c.ComputeMajor < minComputeMajor || c.ComputeMajor == minComputeMajor && c.ComputeMinor < minComputeMinor:
			notices = append(notices, info("Ignoring visible gpu device (%s) with Cuda compute capability %d.%d. "+
				"The minimum required Cuda capability is %d.%d.",
				c, c.ComputeMajor, c.ComputeMinor, minComputeMajor, minComputeMinor))
		case c.Multiprocessors < minimum:
			notices = append(notices,
				info("Ignoring visible gpu device (%s) with core count: %d. The minimum required count is "+
					"%d. You can adjust this requirement with the env var TF_MIN_GPU_MULTIPROCESSOR_COUNT.",
					c, c.Multiprocessors, minimum))
		default:
			usable = append(usable, i)
		}
	}
	return usable, notices
}

func defaultMinMultiprocessors(candidates []Candidate) int {
	largest := -1
	for _, c := range candidates {
		largest = max(largest, c.Multiprocessors)
	}
	if largest < 0 || largest > enoughMultiprocessors {
		return enoughMultiprocessors
	}
	return largest
}

// String describes the candidate as TensorFlow's log does: "device: 0, name: NVIDIA H200, pci bus id: 0000:17:00.0,
// compute capability: 9.0".
func (c Candidate) String() string {
	return fmt.Sprintf("device: %d, name: %s, pci bus id: %s, compute capability: %d.%d",
		c.Ordinal, c.Name, c.PCIBusID, c.ComputeMajor, c.ComputeMinor)
}
