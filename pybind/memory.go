// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"fmt"
	"math"
	"time"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// maxWaitMS bounds one WaitForFree: Python must check for signals in between.
const maxWaitMS = 100

// logicalGPU returns the device manager and the number of the GPU for a call: the one that it names, else the one that
// this thread's scope names, else GPU:0.
func logicalGPU(number int64) (*devmgr.Manager, int, error) {
	return cabi.LogicalGPU(number, cabi.Scope)
}

// LimitBytes returns the most that can be allocated on a logical GPU.
func LimitBytes(number int64) (bytes int64, err error) {
	defer process.Gate(&err)
	m, gpu, err := logicalGPU(number)
	if err != nil {
		return 0, err
	}
	limit, err := m.LimitBytes(gpu)
	return int64(limit), err
}

// Frees returns the number of frees on a logical GPU, for WaitForFree.
func Frees(number int64) (count int64, err error) {
	defer process.Gate(&err)
	m, gpu, err := logicalGPU(number)
	if err != nil {
		return 0, err
	}
	frees, err := m.Frees(gpu)
	return int64(frees), err
}

// WaitForFree waits until the number of frees on a logical GPU exceeds seen, or for this many milliseconds. It returns
// the number.
func WaitForFree(number int64, seen int64, milliseconds int64) (count int64, err error) {
	defer process.Gate(&err)
	m, gpu, err := logicalGPU(number)
	if err != nil {
		return 0, err
	}
	timeout := time.Duration(min(max(milliseconds, 0), maxWaitMS)) * time.Millisecond
	if err := m.WaitForFree(gpu, uint64(seen), timeout); err != nil {
		return 0, err
	}
	frees, err := m.Frees(gpu)
	return int64(frees), err
}

// ResolveGPU returns the number of the logical GPU that a device string names.
func ResolveGPU(device string) (number int64, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return 0, err
	}
	n, err := m.ResolveGPU(device)
	return int64(n), err
}

// IsUnified reports whether a logical GPU's memory is unified memory.
func IsUnified(number int64) (unified bool, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return false, err
	}
	return m.IsUnified(int(number))
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
	m, err := manager()
	if err != nil {
		return "", err
	}
	current, peak, err := m.MemoryInfo(device)
	return fmt.Sprintf("%d %d", current, peak), err
}

// ResetMemoryStats resets the peak of a device.
func ResetMemoryStats(device string) (done bool, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return false, err
	}
	return true, m.ResetMemoryStats(device)
}

// MemoryStats returns all statistics of a device's pool, a wire.MemoryStats.
func MemoryStats(device string) (stats string, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return "", err
	}
	s, err := m.MemoryStats(device)
	if err != nil {
		return "", err
	}
	return wire.Encode(wire.MemoryStats{NumAllocs: s.NumAllocs, LiveBlocks: s.LiveBlocks, BytesInUse: s.BytesInUse,
		RequestedBytesInUse: s.RequestedBytesInUse, PeakBytesInUse: s.PeakBytesInUse,
		LargestAllocSize: s.LargestAllocSize, BytesLimit: s.BytesLimit, BytesReserved: s.BytesReserved,
		PeakBytesReserved: s.PeakBytesReserved, LargestFreeBlockBytes: s.LargestFreeBlockBytes, Stitches: s.Stitches,
		StitchedBytes: s.StitchedBytes, CapturedBytes: s.CapturedBytes, OversubscribedBytes: s.OversubscribedBytes,
		BudgetLimitBytes: s.Budget.LimitBytes, BudgetPoolBytes: s.Budget.PoolBytes,
		BudgetOutsideBytes: s.Budget.OutsideBytes, BudgetFreeBytes: s.Budget.FreeBytes})
}

// MemoryTotals returns the wire.MemoryTotals of a logical GPU's pool.
func MemoryTotals(number int64) (totals string, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return "", err
	}
	t, ooms, err := m.MemoryTotals(int(number))
	if err != nil {
		return "", err
	}
	return wire.Encode(wire.MemoryTotals{Allocs: t.Allocs, AllocatedBytes: t.AllocatedBytes, Regions: t.Regions,
		RecentPeakBytesReserved: t.RecentPeakBytesReserved, OOMs: ooms})
}

// MemoryMap returns the layout of a pool, a wire.MemoryMap.
func MemoryMap(device string) (picture string, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return "", err
	}
	drawn, err := m.MemoryMap(device)
	if err != nil {
		return "", err
	}
	return wire.Encode(wire.MemoryMap{Device: drawn.Name, BytesLimit: drawn.LimitBytes,
		Regions: regionsOf(drawn.MemoryMap), OversubscribedBytes: drawn.OversubscribedBytes})
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
	m, err := manager()
	if err != nil {
		return "", err
	}
	u, name, err := m.Usage(device)
	if err != nil {
		return "", err
	}
	return wire.Encode(wire.DeviceUsage{Device: name, Usage: usageOf(u)})
}

// StartPeak starts a measurement on a logical GPU; -1 is the thread's. It returns a wire.PeakStart.
func StartPeak(number int64) (started string, err error) {
	defer process.Gate(&err)
	m, gpu, err := logicalGPU(number)
	if err != nil {
		return "", err
	}
	id, before, err := m.StartPeak(gpu)
	if err != nil {
		return "", err
	}
	return wire.Encode(wire.PeakStart{GPU: int64(gpu), ID: int64(id), Before: usageOf(before)})
}

// StopPeak ends a measurement. It returns what is in use, a wire.Usage with the peaks of the
// measurement.
func StopPeak(number int64, id int64) (measured string, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return "", err
	}
	after, err := m.StopPeak(int(number), bfc.PeakID(id))
	if err != nil {
		return "", err
	}
	return wire.Encode(usageOf(after))
}
