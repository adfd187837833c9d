// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"strconv"

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
