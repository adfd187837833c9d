package devmgr

import (
	"errors"
	"fmt"
	"slices"

	"gpuconf/gocore/config"
	"gpuconf/gocore/status"
)

// View is what one session sees of the logical devices: so many CPUs, and so many of the GPUs, the first ones.
type View struct {
	CPUs, GPUs int
}

// Join makes sure that the logical devices are those that a session with options asks for. It builds them if none are there, as
// Initialize does, and leaves them where the options say nothing about GPUs or ask for what is there.
//
// A session that wants no GPU at all builds nothing: its CPUs need nothing, and contexts take memory of GPUs that it will not use.
//
// Options that ask for something else are refused with FailedPrecondition while memory of the pools is in use: the error names
// who asked for those that are there. Without memory in use the pools are built anew; renamed tells that there are
// other devices than before, which unused, if not nil, may refuse beforehand. If the building fails, the pools are what they were.
func (m *Manager) Join(options config.Options, env config.Env, origin string, unused func() error) (view View, renamed bool, err error) {
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
		err = m.rebuildLocked(layout, env, origin)
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
	return status.Errorf(status.FailedPrecondition, "this session's GPU options differ from those in force, which were set by %s, and they cannot change now: %s. "+
		"Use the same GPU options in both places, or call gpuconf.reset() first", m.builtBy, inUse)
}

// rebuildLocked gives the pools up, which must be empty, and builds those of another layout.
func (m *Manager) rebuildLocked(layout config.Layout, env config.Env, origin string) error {
	if live := m.sealLocked(); live != "" {
		m.unsealLocked()
		return m.errDiffers("memory is in use: " + live)
	}
	before, beforeBy := m.layout, m.builtBy
	closeErr := errors.Join(m.closeStreams(), closePools(m.driver, m.gpus))
	m.putLocked(nil, m.logical[:len(m.logical)-len(m.gpus)]) // the CPUs
	if closeErr != nil {
		m.notice(config.Notice{Level: "warning", Text: fmt.Sprintf("some pools were not released cleanly: %v", closeErr)})
	}
	err := m.buildLocked(layout, env, origin)
	if err == nil {
		return nil
	}
	if again := m.buildLocked(before, env, beforeBy); again != nil {
		return status.Errorf(status.CodeOf(err), "%w. The previous GPU configuration could not be restored either: call gpuconf.reset()", errors.Join(err, again))
	}
	return err
}
