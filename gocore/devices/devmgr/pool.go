// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/gocore/tf/config"
)

// pool is a logical GPU: a memory budget on a physical GPU, and the allocator that enforces it.
type pool struct {
	number     int        // N of GPU:N
	name       string     // TensorFlow's name for the allocator, "GPU_0_bfc"
	device     gpu.Device // the physical GPU
	limitBytes uint64
	raise      string     // how the limit can be raised, for error messages
	limited    bool       // limitBytes was set explicitly
	unified    bool       // its memory is unified memory
	growth     bool       // it takes memory when it needs it
	priority   int        // of stream
	stream     gpu.Stream // the pool's own stream, guarded by Manager.streams.mu; StreamNull if none

	virtual *suballoc.Virtual // bfc's source of memory if the pool grows by granules; else nil
	bfc     *bfc.Allocator

	numbers  *streamNumbers
	timeline *timeline
	captures *captures

	frees freeSignal
	ooms  atomic.Uint64 // allocations that ran out of memory
}

var (
	_ suballoc.VirtualUpstream = virtualUpstream{}
)

// upstream gives a pool access to its physical GPU. It keeps owners up to date with the memory taken from the driver.
type upstream struct {
	driver gpu.Driver
	owners *owners
	pool   *pool
}

// MemAlloc allocates a region on the GPU and records its owner.
func (u upstream) MemAlloc(bytes uint64) (uint64, error) { return u.owned(bytes, u.driver.MemAlloc) }

func (u upstream) owned(bytes uint64, take func(ordinal int, bytes uint64) (uint64, error)) (uint64, error) {
	addr, err := take(u.pool.device.Ordinal, bytes)
	if err != nil {
		return 0, err
	}
	u.owners.add(addr, bytes, u.pool)
	return addr, nil
}

// MemFree removes a region from owners and frees it.
func (u upstream) MemFree(addr uint64) error {
	u.owners.remove(addr)
	return u.driver.MemFree(u.pool.device.Ordinal, addr)
}

// newPool retains the GPU's context (invariant 3) and creates an empty pool on it. The first allocation takes pool
// memory.
//
// allotted is the sum of the limits of the pools that the physical GPU already has.
func (m *Manager) newPool(number int, wanted config.LayoutDevice, env config.Env, collect bool, allotted uint64) (
	*pool, error) {
	device, _ := m.Details(wanted.Physical)
	if err := m.driver.ContextRetain(device.Ordinal); err != nil {
		return nil, driverError(err, "%s: cannot create a context on %s", shortName(number), device.Name)
	}
	p := &pool{number: number, name: fmt.Sprintf("GPU_%d_bfc", number), device: device, priority: wanted.Priority,
		limited: wanted.Limited, unified: wanted.Unified}
	if err := m.fill(p, wanted, env, collect, allotted); err != nil {
		return nil, errors.Join(err, releaseContext(m.driver, p))
	}
	return p, nil
}

// fill determines the limit and the growth, and creates the allocator.
func (m *Manager) fill(p *pool, wanted config.LayoutDevice, env config.Env, collect bool, allotted uint64) (err error) {
	ceiling, err := env.Ceiling(p.device.Ordinal, len(m.listed))
	if err != nil {
		return err
	}
	if p.limitBytes, err = m.limit(p.device, wanted, env, ceiling); err != nil {
		return err
	}
	var lowered []config.Notice
	p.limitBytes, lowered = ceiling.Lower(shortName(p.number), p.limitBytes, allotted)
	m.notice(lowered...)
	p.raise = "raise its limit"
	if ceiling.Set && (len(lowered) > 0 || !wanted.Limited && p.limitBytes == ceiling.Default(wanted.Sizing.Shares)) {
		p.raise = ceiling.Raise()
	}
	if err := p.checkUnified(); err != nil {
		return err
	}
	if wanted.Allocator != "" {
		m.noticef("error", "Invalid allocator type: %s", wanted.Allocator)
		return status.Errorf(status.Internal, "Failed to get memory allocator for TF GPU %d with %d bytes of memory. "+
			"allocator_type is '%s': the only allocator is 'BFC'", p.number, p.limitBytes, wanted.Allocator)
	}
	growth, notices, err := env.AllowGrowth(wanted.Growth)
	if err != nil {
		return err
	}
	m.notice(notices...)
	p.growth = growth
	sub, err := m.subAllocator(p)
	if err != nil {
		return err
	}
	p.numbers = newStreamNumbers(m.driver, p.device)
	p.timeline = &timeline{driver: m.driver, device: p.device, numbers: p.numbers}
	p.captures = &captures{driver: m.driver, device: p.device}
	if p.bfc, err = bfc.New(sub, bfc.Options{Name: p.name, GarbageCollect: collect, Timeline: p.timeline}); err != nil {
		return errors.Join(err, p.closeRange())
	}
	return nil
}

// subAllocator returns a pool's source of memory: granules if the pool grows and the GPU supports virtual memory
// management, else TensorFlow's regions.
//
// A pool that takes its whole limit at once uses one region, as in TensorFlow, even if the GPU could map granules:
// those need a call for every 2 MiB, which would delay the first allocation, and the addresses would differ from
// TensorFlow's.
//
// A pool of unified memory always uses regions.
func (m *Manager) subAllocator(p *pool) (bfc.SubAllocator, error) {
	up := upstream{m.driver, &m.owners, p}
	if p.unified {
		return suballoc.NewRegions(unifiedUpstream{up},
			suballoc.Options{LimitBytes: p.limitBytes, Growth: p.growth}), nil
	}
	if !p.growth || !p.device.VMM {
		return suballoc.NewRegions(up, suballoc.Options{LimitBytes: p.limitBytes, Growth: p.growth}), nil
	}
	var err error
	if p.virtual, err = suballoc.NewVirtual(virtualUpstream{up},
		suballoc.VirtualOptions{LimitBytes: p.limitBytes}); err != nil {
		return nil, driverError(err, "%s: cannot reserve an address range of %s", shortName(p.number),
			human.Bytes(p.limitBytes))
	}
	return p.virtual, nil
}

func (p *pool) closeTimeline() error {
	if err := p.timeline.close(); err != nil {
		return driverError(err, "%s: cannot release its timeline", shortName(p.number))
	}
	return nil
}

// closeRange releases the address range of a growing pool, after its memory.
func (p *pool) closeRange() error {
	if p.virtual == nil {
		return nil
	}
	return p.virtual.Close()
}

// limit returns the explicit limit, or else the ceiling unless the GPU has less, or else the default limit for the
// GPU's available memory.
func (m *Manager) limit(device gpu.Device, wanted config.LayoutDevice, env config.Env, ceiling config.Ceiling) (
	uint64, error) {
	if wanted.Limited {
		return wanted.LimitBytes, nil
	}
	if ceiling.Set && wanted.Sizing.Fraction == 0 && ceiling.Bytes <= device.TotalBytes {
		return ceiling.Default(wanted.Sizing.Shares), nil
	}
	if ceiling.Set { // the variable is then for TensorFlow itself, which has no ceiling
		env = maps.Clone(env)
		delete(env, "TF_DEVICE_MIN_SYS_MEMORY_IN_MB")
	}
	free, total, err := m.driver.MemGetInfo(device.Ordinal)
	if err != nil {
		return 0, driverError(err, "Failed to query available memory for GPU %d", device.Ordinal)
	}
	limit, notices, err := config.DefaultLimit(config.Memory{
		AvailableBytes: free, TotalBytes: total, ComputeMajor: device.ComputeMajor,
		Shared: device.MemoryKind == gpu.Unified,
		Sizing: wanted.Sizing,
	}, env)
	m.notice(notices...)
	return limit, err
}

// closePools releases every pool and its context, in reverse order of creation. It continues after errors and joins
// them.
func closePools(driver gpu.Driver, pools []*pool) error {
	var err error
	for i := len(pools) - 1; i >= 0; i-- {
		p := pools[i]
		err = errors.Join(err, p.bfc.Close(), p.closeRange(), p.closeTimeline(), p.closeStream(driver),
			releaseContext(driver, p))
		p.frees.freed() // its memory is free: wake the waiters
	}
	return err
}

func releaseContext(driver gpu.Driver, p *pool) error {
	if err := driver.ContextRelease(p.device.Ordinal); err != nil {
		return driverError(err, "%s: cannot release the context on %s", shortName(p.number), p.device.Name)
	}
	return nil
}

// driverError wraps an error of the driver in an error of a documented kind.
func driverError(err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if isOutOfMemory(err) {
		return status.Errorf(status.ResourceExhausted, "%s: the GPU is out of memory: %w", what, err)
	}
	return status.Errorf(status.Unknown, "%s: %w", what, err)
}

// isOutOfMemory reports whether an error is the driver's out-of-memory error.
func isOutOfMemory(err error) bool {
	var result gpu.Result
	return errors.As(err, &result) && result == gpu.ErrorOutOfMemory
}

// unifiedUpstream gives a pool access to unified memory, in regions: CUDA cannot map managed memory in granules.
type unifiedUpstream struct{ upstream }

// MemAlloc allocates a region of managed memory, which may exceed the GPU's, and records its owner. MemFree frees it
// like any other.
func (u unifiedUpstream) MemAlloc(bytes uint64) (uint64, error) {
	return u.owned(bytes, u.driver.MemAllocManaged)
}

// checkUnified fails for a GPU without managed memory, such as a vGPU: every allocation would fail there.
func (p *pool) checkUnified() error {
	if p.unified && !p.device.Managed {
		return status.Errorf(status.Unimplemented, "%s cannot use unified memory: %s (GPU %d) does not support "+
			"managed memory. Do not set use_unified_memory, and keep per_process_gpu_memory_fraction at 1 or below",
			shortName(p.number), p.device.Name, p.device.Ordinal)
	}
	return nil
}

// spills reports whether the pool's memory may exceed the GPU's.
func (p *pool) spills() bool { return p.unified && p.device.Oversubscribes }

// oversubscribedLocked is the number of bytes by which the blocks in use in all of this process's pools on the pool's
// GPU exceed that GPU's memory. At least that many bytes are not on the GPU. It is 0 for a pool without unified memory.
func (m *Manager) oversubscribedLocked(p *pool) uint64 {
	if !p.spills() {
		return 0
	}
	var inUse uint64
	for _, other := range m.gpus {
		if other.device.Ordinal == p.device.Ordinal {
			bytes, _ := other.bfc.BytesInUse()
			inUse += bytes
		}
	}
	return inUse - min(inUse, p.device.TotalBytes)
}

// IsUnified reports whether a logical GPU's memory is unified memory.
func (m *Manager) IsUnified(number int) (unified bool, err error) {
	err = m.onPool(number, func(p *pool) { unified = p.unified })
	return unified, err
}

// virtualUpstream gives a pool access to its GPU's virtual memory management. The range that it reserves belongs to the
// pool as a whole; suballoc.Virtual tracks what is mapped inside it.
type virtualUpstream struct{ upstream }

func (u virtualUpstream) MemGetAllocationGranularity() (uint64, error) {
	minimum, _, err := u.driver.MemGetAllocationGranularity(u.pool.device.Ordinal)
	return minimum, err
}

func (u virtualUpstream) MemAddressReserve(bytes, alignment uint64) (uint64, error) {
	addr, err := u.driver.MemAddressReserve(bytes, alignment)
	if err == nil {
		u.owners.add(addr, bytes, u.pool)
	}
	return addr, err
}

func (u virtualUpstream) MemAddressFree(addr, bytes uint64) error {
	u.owners.remove(addr)
	return u.driver.MemAddressFree(addr, bytes)
}

func (u virtualUpstream) MemCreate(bytes uint64) (uint64, error) {
	handle, err := u.driver.MemCreate(u.pool.device.Ordinal, bytes)
	return uint64(handle), err
}

func (u virtualUpstream) MemRelease(handle uint64) error {
	return u.driver.MemRelease(gpu.Handle(handle))
}

func (u virtualUpstream) MemMap(addr, bytes, handle uint64) error {
	return u.driver.MemMap(addr, bytes, gpu.Handle(handle))
}

func (u virtualUpstream) MemUnmap(addr, bytes uint64) error {
	return u.driver.MemUnmap(addr, bytes)
}

func (u virtualUpstream) MemSetAccess(addr, bytes uint64) error {
	return u.driver.MemSetAccess(u.pool.device.Ordinal, addr, bytes)
}
