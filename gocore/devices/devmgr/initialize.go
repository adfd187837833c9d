// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"fmt"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/tf/config"
)

// Initialize builds the logical devices of the configuration, unless a session has built them, and freezes it. origin
// is the caller, as "file:line (call)", which the errors of later setters name. A second call does nothing.
//
// Initialize creates contexts; the first allocation takes pool memory. If it fails, nothing is changed.
func (m *Manager) Initialize(env config.Env, origin string) error {
	_, err := m.InitializeAfterSessions(env, origin, nil)
	return err
}

// InitializeAfterSessions is Initialize for a caller that opens sessions. If settings were made after a session, it
// builds the devices again, which must not be in use. renamed and unused are those of Join.
func (m *Manager) InitializeAfterSessions(env config.Env, origin string, unused func() error) (
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
		before := m.namesLocked()
		if unused != nil && !slices.Equal(before, namesOf(layout)) {
			if err := unused(); err != nil {
				return false, m.errSetUp(err.Error())
			}
		}
		err = m.rebuildLocked(layout, env, origin, m.errSetUp)
		renamed = !slices.Equal(before, m.namesLocked())
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
		m.notice(
			config.Notice{Level: "info", Text: fmt.Sprintf("Created device %s/device:GPU:%d with %d MB memory:  -> %s",
				localTask, p.number, p.limitBytes>>20, candidate(p.device))})
	}
	return pools, logical, nil
}

// noticeAllocator adds a notice if the environment selects a TensorFlow allocator that gpuconf does not have.
func (m *Manager) noticeAllocator(env config.Env) {
	switch name := env["TF_GPU_ALLOCATOR"]; name {
	case "cuda_malloc", "memory_guard", "cuda_malloc_async":
		m.notice(config.Notice{Level: "warning", Text: fmt.Sprintf(
			"TF_GPU_ALLOCATOR=%s is ignored: gpuconf has a single allocator, which enforces limits and keeps "+
				"statistics", name)})
	}
}
