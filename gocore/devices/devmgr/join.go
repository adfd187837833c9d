// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"fmt"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
)

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
		before := m.namesLocked()
		if unused != nil && !slices.Equal(before, namesOf(layout)) {
			if err := unused(); err != nil {
				return View{}, false, m.errDiffers(err.Error())
			}
		}
		err = m.rebuildLocked(layout, env, origin, m.errDiffers)
		renamed = !slices.Equal(before, m.namesLocked())
	}
	return View{CPUs: layout.CPUs, GPUs: min(layout.GPUs, len(m.gpus))}, renamed, err
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
		m.notice(config.Notice{Level: "warning", Text: fmt.Sprintf("some pools were not released cleanly: %v",
			closeErr)})
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
