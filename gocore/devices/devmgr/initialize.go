// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"fmt"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
)

// enumerate lists the physical devices and keeps the GPUs among them in m.listed. It creates no context.
func (m *Manager) enumerate(env config.Env) ([]config.PhysicalDevice, error) {
	enabled, notices, err := env.EnabledTypes([]string{"CPU", "GPU"})
	m.notice(notices...)
	if err != nil {
		return nil, err
	}
	physical := []config.PhysicalDevice{{Name: "/physical_device:CPU:0", Type: "CPU"}}
	if len(enabled) < 2 {
		m.ExplainNoGPU(fmt.Sprintf("TF_ENABLED_DEVICE_TYPES=%q excludes GPUs", env["TF_ENABLED_DEVICE_TYPES"]))
		return physical, nil
	}
	if m.driver == nil {
		return physical, nil
	}
	devices, err := m.driver.Devices()
	if err != nil {
		return nil, driverError(err, "cannot list the GPUs")
	}
	m.found = devices
	list := make([]config.Candidate, len(devices))
	for i, d := range devices {
		list[i] = candidate(d)
	}
	usable, notices := config.UsableGPUs(list, env)
	m.notice(notices...)
	for _, i := range usable {
		m.listed = append(m.listed, devices[i])
		physical = append(physical, config.PhysicalDevice{Name: physicalName(devices[i].Ordinal), Type: "GPU"})
	}
	return physical, nil
}

func candidate(d gpu.Device) config.Candidate {
	return config.Candidate{
		Ordinal:         d.Ordinal,
		Name:            d.Name,
		PCIBusID:        d.PCIBusID,
		ComputeMajor:    d.ComputeMajor,
		ComputeMinor:    d.ComputeMinor,
		Multiprocessors: d.Multiprocessors,
	}
}

// Found returns all GPUs that the process sees, by ordinal, and the name of each in the physical list: "" for a GPU
// that does not meet the minimum requirements.
func (m *Manager) Found() (devices []gpu.Device, names []string, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, nil, errClosed()
	}
	names = make([]string, len(m.found))
	for i, d := range m.found {
		for _, listed := range m.listed {
			if listed.Ordinal == d.Ordinal {
				names[i] = physicalName(d.Ordinal)
			}
		}
	}
	return append([]gpu.Device(nil), m.found...), names, nil
}

func physicalName(ordinal int) string { return fmt.Sprintf("/physical_device:GPU:%d", ordinal) }

// Details describes the physical device at an index of the physical list; ok is false for the CPU.
func (m *Manager) Details(index int) (device gpu.Device, ok bool) {
	i := index - 1 // the CPU comes first
	if i < 0 || i >= len(m.listed) {
		return gpu.Device{}, false
	}
	return m.listed[i], true
}

// Initialize builds the logical devices of the configuration, unless a session has built them, and freezes it. origin
// is the caller, as "file:line (call)", which the errors of later setters name. A second call does nothing.
//
// Initialize creates contexts; the first allocation takes pool memory. If it fails, nothing is changed.
//
// If settings were made after a session, it builds the devices again, which must not be in use. renamed and unused are
// those of Join; unused may be nil for a caller that opens no sessions.
func (m *Manager) Initialize(env config.Env, origin string, unused func() error) (
	renamed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, errClosed()
	}
	if m.state.Initialized() && !m.state.Changed() {
		if err := m.state.Evaluate(); err != nil {
			return false, err
		}
		m.state.Initialize(origin)
		return false, nil
	}
	layout, err := m.state.Layout(m.facts())
	if err != nil {
		return false, err
	}
	switch {
	case !m.state.Initialized():
		err = m.buildLocked(layout, env, origin)
	case !layout.Equal(m.layout):
		renamed, err = m.changeLocked(layout, env, origin, unused, m.errSetUp)
	}
	if err != nil {
		return renamed, err
	}
	m.state.Initialize(origin)
	return renamed, nil
}

// errSetUp is the error for settings made after a session whose devices are in use. TensorFlow reports AlreadyExists,
// too.
func (m *Manager) errSetUp(inUse string) error {
	return status.Errorf(status.AlreadyExists, "the devices were set up by %s, and settings made after it would set "+
		"them up differently, which is not possible now: %s. Make these settings before, or call gpuconf.reset() first",
		m.builtBy, inUse)
}

// buildLocked builds and installs the devices of a layout, or changes nothing.
func (m *Manager) buildLocked(layout config.Layout, env config.Env, origin string) error {
	pools, logical, err := m.build(layout, env)
	if err != nil {
		return err
	}
	m.layout, m.builtBy = layout, origin
	m.state.Build()
	m.putLocked(pools, logical)
	m.injectLocked(pools)
	m.recordNewLocked(pools)
	m.publishNewLocked(pools)
	return nil
}

func (m *Manager) putLocked(pools []*pool, logical []LogicalDevice) {
	m.gpus, m.logical, m.names = pools, logical, nil
	m.hot.Store(&pools)
	for _, d := range logical {
		name, _ := devname.ParseFullName(d.FullName)
		m.names = append(m.names, name)
	}
}

func (m *Manager) facts() []config.GPUFacts {
	facts := make([]config.GPUFacts, len(m.listed))
	for i, d := range m.listed {
		facts[i] = config.GPUFacts{
			Ordinal: d.Ordinal, LeastPriority: d.LeastPriority, GreatestPriority: d.GreatestPriority,
			ComputeMajor: d.ComputeMajor,
		}
	}
	return facts
}

// Initialized reports whether the logical devices exist.
func (m *Manager) Initialized() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return !m.closed && m.state.Initialized()
}

// build creates all pools of a layout, or none.
func (m *Manager) build(layout config.Layout, env config.Env) (pools []*pool, logical []LogicalDevice, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closePools(m.driver, pools))
			pools, logical = nil, nil
		}
	}()
	collect, notices := env.GarbageCollection()
	m.notice(notices...)
	m.noticeAllocator(env)
	allotted := map[int]uint64{} // by physical device
	for _, wanted := range layout.Devices {
		d := LogicalDevice{
			Name:     wanted.Logical.Name,
			FullName: localTask + wanted.Logical.Name,
			Type:     wanted.Logical.Type,
			Ordinal:  -1,
			gpu:      -1,
		}
		if d.Type == "GPU" {
			p, err := m.newPool(len(pools), wanted, env, collect, allotted[wanted.Physical])
			if err != nil {
				return pools, logical, err
			}
			allotted[wanted.Physical] += p.limitBytes
			d.gpu, d.Ordinal = len(pools), p.device.Ordinal
			pools = append(pools, p)
		}
		logical = append(logical, d)
	}
	m.noticeOvercommitted(pools)
	m.noticePeers(pools)
	for _, p := range pools {
		m.noticef("info", "Created device %s/device:GPU:%d with %d MB memory:  -> %s",
			localTask, p.number, p.limitBytes>>20, candidate(p.device))
	}
	return pools, logical, nil
}

// noticeAllocator adds a notice if the environment selects a TensorFlow allocator that gpuconf does not have.
func (m *Manager) noticeAllocator(env config.Env) {
	switch name := env["TF_GPU_ALLOCATOR"]; name {
	case "cuda_malloc", "memory_guard", "cuda_malloc_async":
		m.noticef("warning", "TF_GPU_ALLOCATOR=%s is ignored: gpuconf has a single allocator, which enforces limits "+
			"and keeps statistics", name)
	}
}

// View is the part of the logical devices that one session sees: the first CPUs and the first GPUs.
type View struct {
	CPUs, GPUs int // how many of each
}

// Join makes the logical devices match the options of a session. If there are none, it builds them as Initialize does.
// If the options do not concern GPUs, or match the existing devices, it keeps those.
//
// A session that uses no GPU builds nothing: its CPUs need no set-up, and contexts would take memory of GPUs that it
// does not use.
//
// If the options differ and memory of the pools is in use, Join returns FailedPrecondition, and the error names the
// caller that created the current devices. Otherwise the pools are rebuilt. renamed reports whether the set of devices
// has changed; unused, if not nil, may reject such a change beforehand. If rebuilding fails, the previous pools are
// restored.
func (m *Manager) Join(options config.Options, env config.Env, origin string, unused func() error) (
	view View, renamed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return View{}, false, errClosed()
	}
	layout, err := m.state.LayoutFor(m.facts(), options)
	if err != nil {
		return View{}, false, err
	}
	switch {
	case !m.state.Initialized() && layout.GPUs == 0:
	case !m.state.Initialized():
		err = m.buildLocked(layout, env, origin)
		renamed = err == nil
	case options.AboutGPUs() && !layout.Equal(m.layout):
		renamed, err = m.changeLocked(layout, env, origin, unused, m.errDiffers)
	}
	return View{CPUs: layout.CPUs, GPUs: min(layout.GPUs, len(m.gpus))}, renamed, err
}

// changeLocked builds other devices in place of the current ones. renamed and unused are those of Join; refused makes
// the error of what is in use.
func (m *Manager) changeLocked(layout config.Layout, env config.Env, origin string, unused func() error,
	refused func(inUse string) error) (renamed bool, err error) {
	before := m.namesLocked()
	if unused != nil && !slices.Equal(before, namesOf(layout)) {
		if err := unused(); err != nil {
			return false, refused(err.Error())
		}
	}
	err = m.rebuildLocked(layout, env, origin, refused)
	return !slices.Equal(before, m.namesLocked()), err
}

func (m *Manager) namesLocked() (names []string) {
	for _, d := range m.logical {
		names = append(names, d.FullName)
	}
	return names
}

func namesOf(p config.Layout) (names []string) {
	for _, d := range p.Devices {
		names = append(names, localTask+d.Logical.Name)
	}
	return names
}

func (m *Manager) errDiffers(inUse string) error {
	return status.Errorf(status.FailedPrecondition, "this session's GPU options differ from those in force, which "+
		"were set by %s, and they cannot change now: %s. Use the same GPU options in both places, or call "+
		"gpuconf.reset() first", m.builtBy, inUse)
}

// rebuildLocked releases the pools, which must be empty (invariants 1 and 4), and builds those of another layout.
// refused is the error if memory is in use.
func (m *Manager) rebuildLocked(layout config.Layout, env config.Env, origin string,
	refused func(inUse string) error) error {
	if live := m.sealLocked(); live != "" {
		m.unsealLocked()
		return refused("memory is in use: " + live)
	}
	before, beforeBy := m.layout, m.builtBy
	m.streams.owners.Store(nil)
	closeErr := closePools(m.driver, m.gpus)
	m.putLocked(nil, m.logical[:len(m.logical)-len(m.gpus)]) // the CPUs
	if closeErr != nil {
		m.noticef("warning", "some pools were not released cleanly: %v", closeErr)
	}
	err := m.buildLocked(layout, env, origin)
	if err == nil {
		return nil
	}
	if again := m.buildLocked(before, env, beforeBy); again != nil {
		return status.Errorf(status.CodeOf(err), "%w. The previous GPU configuration could not be restored either: "+
			"call gpuconf.reset()", errors.Join(err, again))
	}
	return err
}

// noticePeers says once, when the first pool of virtual memory is built on a machine where a program may want to copy
// between GPUs, what such memory cannot do: GPUs with peer access can copy it, but CUDA exports virtual memory in
// another way than memory from cuMemAlloc. On simulated GPUs nothing but gpuconf touches the memory.
func (m *Manager) noticePeers(pools []*pool) {
	if m.HostVisible() || len(m.listed) < 2 || m.saidPeers {
		return
	}
	for _, p := range pools {
		if p.virtual == nil {
			continue
		}
		m.saidPeers = true
		m.noticef("warning", "%s grows, and %d GPUs are visible: memory of a pool that grows can be copied "+
			"between GPUs with peer access, but NCCL, CUDA IPC (Dask-CUDA, UCX) and RDMA (NCCL, UCX and NIXL "+
			"across nodes) do not work with it; if the program uses them, configure growth=False",
			shortName(p.number), len(m.listed))
		return
	}
}
