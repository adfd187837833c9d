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

// onGPU is a logical GPU: the one that the call names, else the one that this thread's scope names, else GPU:0.
type onGPU struct {
	*devmgr.Manager
	number int
}

func logicalGPU(number int64) (on onGPU, err error) {
	on.Manager, on.number, err = cabi.LogicalGPU(number, cabi.Scope)
	return on, err
}

// maxWaitMS bounds one WaitForFree: Python must check for signals in between.
const maxWaitMS = 100

// LimitBytes returns the most that can be allocated on a logical GPU.
func (calls) LimitBytes(on onGPU) (bytes uint64, err error) { return on.LimitBytes(on.number) }

// Frees returns the number of frees on a logical GPU, for WaitForFree.
func (calls) Frees(on onGPU) (count uint64, err error) { return on.Frees(on.number) }

// WaitForFree waits until the number of frees on a logical GPU exceeds seen, or for this many milliseconds. It returns
// the number.
func (calls) WaitForFree(on onGPU, seen int64, milliseconds int64) (count uint64, err error) {
	timeout := time.Duration(min(max(milliseconds, 0), maxWaitMS)) * time.Millisecond
	if err := on.Manager.WaitForFree(on.number, uint64(seen), timeout); err != nil {
		return 0, err
	}
	return on.Frees(on.number)
}

// ResolveGPU returns the number of the logical GPU that a device string names.
func (calls) ResolveGPU(m *devmgr.Manager, device string) (number int, err error) {
	return m.ResolveGPU(device)
}

// IsUnified reports whether a logical GPU's memory is unified memory.
func (calls) IsUnified(m *devmgr.Manager, number int64) (unified bool, err error) {
	return m.IsUnified(int(number))
}

// CopyFromHost copies host memory, which the caller keeps alive, into the live block that has this allocation id.
func (calls) CopyFromHost(m *devmgr.Manager, address, id, offset, host, nbytes int64) error {
	bytes, err := copied(offset, host, nbytes)
	if err != nil {
		return err
	}
	return m.CopyFromHost(uint64(address), uint64(id), uint64(offset), bytes)
}

// CopyToHost copies the live block that has this allocation id into host memory, which the caller keeps alive.
func (calls) CopyToHost(m *devmgr.Manager, address, id, offset, host, nbytes int64) error {
	bytes, err := copied(offset, host, nbytes)
	if err != nil {
		return err
	}
	return m.CopyToHost(uint64(address), uint64(id), uint64(offset), bytes)
}

func copied(offset, host, nbytes int64) ([]byte, error) {
	if offset < 0 {
		return nil, status.Errorf(status.InvalidArgument, "invalid copy of %d bytes at offset %d, host address 0x%x",
			nbytes, offset, host)
	}
	return hostMemory(host, nbytes)
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
func (calls) MemoryInfo(m *devmgr.Manager, device string) (info string, err error) {
	current, peak, err := m.MemoryInfo(device)
	return fmt.Sprintf("%d %d", current, peak), err
}

// ResetMemoryStats resets the peak of a device.
func (calls) ResetMemoryStats(m *devmgr.Manager, device string) error {
	return m.ResetMemoryStats(device)
}

// MemoryStats returns all statistics of a device's pool.
func (calls) MemoryStats(m *devmgr.Manager, device string) (devmgr.MemoryStats, error) {
	return m.MemoryStats(device)
}

// MemoryTotals returns the counters of a logical GPU's pool.
func (calls) MemoryTotals(m *devmgr.Manager, number int64) (devmgr.MemoryTotals, error) {
	return m.MemoryTotals(int(number))
}

// MemoryMap returns the layout of a pool.
func (calls) MemoryMap(m *devmgr.Manager, device string) (wire.MemoryMap, error) {
	drawn, err := m.MemoryMap(device)
	return wire.MemoryMap{Device: drawn.Name, BytesLimit: drawn.LimitBytes, Regions: regionsOf(drawn.MemoryMap),
		OversubscribedBytes: drawn.OversubscribedBytes}, err
}

// MemoryUsage returns the memory in use on a device by holder.
func (calls) MemoryUsage(m *devmgr.Manager, device string) (wire.DeviceUsage, error) {
	u, name, err := m.Usage(device)
	return wire.DeviceUsage{Device: name, Usage: u}, err
}

// StartPeak starts a measurement on a logical GPU; -1 is the thread's.
func (calls) StartPeak(on onGPU) (wire.PeakStart, error) {
	id, before, err := on.StartPeak(on.number)
	return wire.PeakStart{GPU: int64(on.number), ID: int64(id), Before: before}, err
}

// StopPeak ends a measurement. It returns what is in use, with the peaks of the measurement.
func (calls) StopPeak(m *devmgr.Manager, number int64, id int64) (bfc.Usage, error) {
	return m.StopPeak(int(number), bfc.PeakID(id))
}

// MergeScope returns the device name of a scope: the fields of argument override those of the outer scope ("" for
// none).
func (calls) MergeScope(outer string, argument string) (name string, err error) {
	return devname.EnterScope(outer, &argument)
}

// ScopeNumber returns the number of the logical GPU that a scope's name selects, cabi.NoScope if it selects none, or
// cabi.ScopeMissing if the GPU is unknown.
func (calls) ScopeNumber(name string) (number int64, err error) {
	if name == "" {
		return cabi.NoScope, nil
	}
	m, err := process.Shared().Manager()
	if err != nil {
		return 0, err
	}
	parsed, ok := devname.ParseFullName(name)
	if !ok || !parsed.HasType || parsed.Type != "GPU" {
		if ok && parsed.Type == "CPU" {
			return cabi.NoScope, nil
		}
		return cabi.ScopeMissing, nil
	}
	for i := range m.LogicalGPUs() {
		if parsed.Matches(devname.LocalDevice("GPU", i)) {
			return int64(i), nil
		}
	}
	return cabi.ScopeMissing, nil
}

// InternTag returns the number of a tag's name, which stays the same for the life of the process.
func (calls) InternTag(name string) (number holder.Tag, err error) {
	return holder.Intern(name)
}

// FailAllocation makes the n-th allocation from now on fail, on any logical GPU, in any thread and library; 0 ends the
// counting.
func (calls) FailAllocation(m *devmgr.Manager, n int64) error {
	if n < 0 {
		return status.Errorf(status.InvalidArgument, "n must be at least 0, but got %d", n)
	}
	return m.FailAllocation(uint64(n))
}

// CountedAllocations returns the number of allocations since FailAllocation, up to and including the one that failed.
func (calls) CountedAllocations(m *devmgr.Manager) (count uint64, err error) {
	return m.CountedAllocations(), nil
}
