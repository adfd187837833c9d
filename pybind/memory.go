// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"fmt"
	"math"
	"time"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// maxWaitMS bounds one WaitForFree: Python must check for signals in between.
const maxWaitMS = 100

// onLogicalGPU calls use with the device manager and a logical GPU: the one that the call names, else the one that this
// thread's scope names, else GPU:0.
func onLogicalGPU[R any](number int64, use func(m *devmgr.Manager, gpu int) (R, error)) (result R, err error) {
	m, gpu, err := cabi.LogicalGPU(number, cabi.Scope)
	if err != nil {
		return result, err
	}
	return use(m, gpu)
}

// LimitBytes returns the most that can be allocated on a logical GPU.
func LimitBytes(number int64) (bytes int64, err error) {
	defer process.Gate(&err)
	return toInt64(onLogicalGPU(number, (*devmgr.Manager).LimitBytes))
}

// Frees returns the number of frees on a logical GPU, for WaitForFree.
func Frees(number int64) (count int64, err error) {
	defer process.Gate(&err)
	return toInt64(onLogicalGPU(number, (*devmgr.Manager).Frees))
}

// WaitForFree waits until the number of frees on a logical GPU exceeds seen, or for this many milliseconds. It returns
// the number.
func WaitForFree(number int64, seen int64, milliseconds int64) (count int64, err error) {
	defer process.Gate(&err)
	timeout := time.Duration(min(max(milliseconds, 0), maxWaitMS)) * time.Millisecond
	return toInt64(onLogicalGPU(number, func(m *devmgr.Manager, gpu int) (uint64, error) {
		if err := m.WaitForFree(gpu, uint64(seen), timeout); err != nil {
			return 0, err
		}
		return m.Frees(gpu)
	}))
}

// ResolveGPU returns the number of the logical GPU that a device string names.
func ResolveGPU(device string) (number int64, err error) {
	defer process.Gate(&err)
	return toInt64(onManager(func(m *devmgr.Manager) (int, error) { return m.ResolveGPU(device) }))
}

// IsUnified reports whether a logical GPU's memory is unified memory.
func IsUnified(number int64) (unified bool, err error) {
	defer process.Gate(&err)
	return onManager(func(m *devmgr.Manager) (bool, error) { return m.IsUnified(int(number)) })
}

// CopyFromHost copies host memory, which the caller keeps alive, into the live block that has this allocation id.
func CopyFromHost(address int64, id int64, offset int64, host int64, nbytes int64) (done bool, err error) {
	defer process.Gate(&err)
	return true, copyBlock(offset, host, nbytes, func(m *devmgr.Manager, bytes []byte) error {
		return m.CopyFromHost(uint64(address), uint64(id), uint64(offset), bytes)
	})
}

// CopyToHost copies the live block that has this allocation id into host memory, which the caller keeps alive.
func CopyToHost(address int64, id int64, offset int64, host int64, nbytes int64) (done bool, err error) {
	defer process.Gate(&err)
	return true, copyBlock(offset, host, nbytes, func(m *devmgr.Manager, bytes []byte) error {
		return m.CopyToHost(uint64(address), uint64(id), uint64(offset), bytes)
	})
}

func copyBlock(offset, host, nbytes int64, move func(*devmgr.Manager, []byte) error) error {
	m, err := manager()
	if err != nil {
		return err
	}
	if offset < 0 {
		return status.Errorf(status.InvalidArgument, "invalid copy of %d bytes at offset %d, host address 0x%x", nbytes,
			offset, host)
	}
	bytes, err := hostMemory(host, nbytes)
	if err != nil {
		return err
	}
	return move(m, bytes)
}

// hostMemory returns host memory that Python keeps alive for the duration of a call.
func hostMemory(host, nbytes int64) ([]byte, error) {
	// A process has the lower half of the address space.
	outside := host <= 0 || nbytes > math.MaxInt64-host
	if nbytes < 0 || (nbytes > 0 && outside) {
		return nil, status.Errorf(status.InvalidArgument, "invalid host memory: %d bytes at address 0x%x", nbytes, host)
	}
	return process.HostBytes(host, nbytes), nil
}

// MemoryInfo returns "current peak" of a device, in bytes.
func MemoryInfo(device string) (info string, err error) {
	defer process.Gate(&err)
	return onManager(func(m *devmgr.Manager) (string, error) {
		current, peak, err := m.MemoryInfo(device)
		return fmt.Sprintf("%d %d", current, peak), err
	})
}

// ResetMemoryStats resets the peak of a device.
func ResetMemoryStats(device string) (done bool, err error) {
	defer process.Gate(&err)
	return onManager(func(m *devmgr.Manager) (bool, error) { return true, m.ResetMemoryStats(device) })
}

// MemoryStats returns all statistics of a device's pool, a wire.MemoryStats.
func MemoryStats(device string) (stats string, err error) {
	defer process.Gate(&err)
	return send(onManager(func(m *devmgr.Manager) (wire.MemoryStats, error) {
		s, err := m.MemoryStats(device)
		return wire.MemoryStats{NumAllocs: s.NumAllocs, LiveBlocks: s.LiveBlocks, BytesInUse: s.BytesInUse,
			RequestedBytesInUse: s.RequestedBytesInUse, PeakBytesInUse: s.PeakBytesInUse,
			LargestAllocSize: s.LargestAllocSize, BytesLimit: s.BytesLimit, BytesReserved: s.BytesReserved,
			PeakBytesReserved: s.PeakBytesReserved, LargestFreeBlockBytes: s.LargestFreeBlockBytes,
			Stitches: s.Stitches, StitchedBytes: s.StitchedBytes, CapturedBytes: s.CapturedBytes,
			OversubscribedBytes: s.OversubscribedBytes, BudgetLimitBytes: s.Budget.LimitBytes,
			BudgetPoolBytes: s.Budget.PoolBytes, BudgetOutsideBytes: s.Budget.OutsideBytes,
			BudgetFreeBytes: s.Budget.FreeBytes}, err
	}))
}

// MemoryTotals returns the wire.MemoryTotals of a logical GPU's pool.
func MemoryTotals(number int64) (totals string, err error) {
	defer process.Gate(&err)
	return send(onManager(func(m *devmgr.Manager) (wire.MemoryTotals, error) {
		t, ooms, err := m.MemoryTotals(int(number))
		return wire.MemoryTotals{Allocs: t.Allocs, AllocatedBytes: t.AllocatedBytes, Regions: t.Regions,
			RecentPeakBytesReserved: t.RecentPeakBytesReserved, OOMs: ooms}, err
	}))
}

// MemoryMap returns the layout of a pool, a wire.MemoryMap.
func MemoryMap(device string) (picture string, err error) {
	defer process.Gate(&err)
	return send(onManager(func(m *devmgr.Manager) (wire.MemoryMap, error) {
		drawn, err := m.MemoryMap(device)
		return wire.MemoryMap{Device: drawn.Name, BytesLimit: drawn.LimitBytes, Regions: regionsOf(drawn.MemoryMap),
			OversubscribedBytes: drawn.OversubscribedBytes}, err
	}))
}

func usageOf(u bfc.Usage) wire.Usage {
	rows := make([]wire.UsageRow, len(u.Rows))
	for i, r := range u.Rows {
		rows[i] = wire.UsageRow{Library: r.Holder.Library().String(), Tag: r.Holder.Tag().String(), BytesInUse: r.Bytes,
			PeakBytesInUse: r.PeakBytes, LiveBlocks: r.Blocks}
	}
	return wire.Usage{BytesInUse: u.Bytes, PeakBytesInUse: u.PeakBytes, LiveBlocks: u.Blocks, Rows: rows}
}

// MemoryUsage returns the memory in use on a device by holder, a wire.DeviceUsage.
func MemoryUsage(device string) (usage string, err error) {
	defer process.Gate(&err)
	return send(onManager(func(m *devmgr.Manager) (wire.DeviceUsage, error) {
		u, name, err := m.Usage(device)
		return wire.DeviceUsage{Device: name, Usage: usageOf(u)}, err
	}))
}

// StartPeak starts a measurement on a logical GPU; -1 is the thread's. It returns a wire.PeakStart.
func StartPeak(number int64) (started string, err error) {
	defer process.Gate(&err)
	return send(onLogicalGPU(number, func(m *devmgr.Manager, gpu int) (wire.PeakStart, error) {
		id, before, err := m.StartPeak(gpu)
		return wire.PeakStart{GPU: int64(gpu), ID: int64(id), Before: usageOf(before)}, err
	}))
}

// StopPeak ends a measurement. It returns what is in use, a wire.Usage with the peaks of the
// measurement.
func StopPeak(number int64, id int64) (measured string, err error) {
	defer process.Gate(&err)
	return send(onManager(func(m *devmgr.Manager) (wire.Usage, error) {
		after, err := m.StopPeak(int(number), bfc.PeakID(id))
		return usageOf(after), err
	}))
}

// MergeScope returns the device name of a scope: the fields of argument override those of the outer scope ("" for
// none).
func MergeScope(outer string, argument string) (name string, err error) {
	defer process.Gate(&err)
	return devname.EnterScope(outer, &argument)
}

// ScopeNumber returns the number of the logical GPU that a scope's name selects, cabi.NoScope if it selects none, or
// cabi.ScopeMissing if the GPU is unknown.
func ScopeNumber(name string) (number int64, err error) {
	defer process.Gate(&err)
	if name == "" {
		return cabi.NoScope, nil
	}
	return onManager(func(m *devmgr.Manager) (int64, error) { return scopeNumber(m.LogicalGPUs(), name), nil })
}

// scopeNumber returns the number of the logical GPU that a scope's name selects; gpus is the number of logical GPUs.
func scopeNumber(gpus int, name string) int64 {
	parsed, ok := devname.ParseFullName(name)
	if !ok || !parsed.HasType || parsed.Type != "GPU" {
		if ok && parsed.Type == "CPU" {
			return cabi.NoScope
		}
		return cabi.ScopeMissing
	}
	for i := range gpus {
		if parsed.Matches(devname.LocalDevice("GPU", i)) {
			return int64(i)
		}
	}
	return cabi.ScopeMissing
}

// InternTag returns the number of a tag's name, which stays the same for the life of the process.
func InternTag(name string) (number int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
	return toInt64(holder.Intern(name))
}

// CurrentTag returns the number of the calling thread's tag; 0 for none.
func CurrentTag() (number int64, err error) {
	defer process.Gate(&err)
	return int64(cabi.Tag()), process.Alive()
}

// SetTag sets the calling thread's tag to a number that InternTag returned, or to 0 for none.
func SetTag(number int64) (done bool, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return false, err
	}
	if number < 0 || number > int64(holder.Other) {
		return false, status.Errorf(status.InvalidArgument, "tag number %d is not from 0 to %d", number, holder.Other)
	}
	cabi.SetTag(holder.Tag(number))
	return true, nil
}

// FailAllocation makes the n-th allocation from now on fail, on any logical GPU, in any thread and library; 0 ends the
// counting.
func FailAllocation(n int64) (done bool, err error) {
	defer process.Gate(&err)
	return onManager(func(m *devmgr.Manager) (bool, error) {
		if n < 0 {
			return false, status.Errorf(status.InvalidArgument, "n must be at least 0, but got %d", n)
		}
		return true, m.FailAllocation(uint64(n))
	})
}

// CountedAllocations returns the number of allocations since FailAllocation, up to and including the one that failed.
func CountedAllocations() (count int64, err error) {
	defer process.Gate(&err)
	return onManager(func(m *devmgr.Manager) (int64, error) { return int64(m.CountedAllocations()), nil })
}
