// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/gocore/tf/graph"
)

// State is the machine that a process runs on and its devices.
type State struct {
	mu      sync.Mutex
	asked   string                      // guarded by mu; the choice of Simulate, "" for the environment's choice
	spec    string                      // guarded by mu; the simulated machine, "" for none
	notices []config.Notice             // guarded by mu; of the machine, not of the devices
	running *recording                  // guarded by mu; nil if no recording is running
	sites   atomic.Pointer[trace.Sites] // written with mu held; of running, or nil
	draft   *config.State               // guarded by mu; the switches set before the devices are listed; nil for none

	publication *ledger.Publication // guarded by mu; nil: the figures of the pools are not published
	// automatic is whether publication is that of publishFrom, which ends with the devices. It is guarded by mu.
	automatic bool
	published atomic.Pointer[ledger.Publication] // written with mu held; publication, for reports

	manager    atomic.Pointer[devmgr.Manager] // written with mu held; nil while empty
	work       atomic.Pointer[Work]           // written with mu held; that of manager
	generation atomic.Uint32                  // counts how often the Manager was closed or logical devices were renamed

	graphs     table[*graph.Graph]
	sessions   table[*Session]
	recordings table[*recording]
}

// Generation counts the resets so far. Anything derived from the devices is invalid after a reset.
func (p *State) Generation() uint32 { return p.generation.Load() }

func (p *State) nextGeneration() { threads.Generation(p.generation.Add(1)) }

// shared is the one process-wide state of gpuconf.
var shared State

// Shared returns the state of this process.
func Shared() *State { return &shared }

// Manager returns the device manager. If the devices have not been listed, it returns FailedPrecondition.
func (p *State) Manager() (*devmgr.Manager, error) {
	if err := Alive(); err != nil {
		return nil, err
	}
	m := p.manager.Load()
	if m == nil {
		return nil, status.Errorf(status.FailedPrecondition,
			"no devices are listed yet; call gpuconf.config.list_logical_devices() first, in C gpuconf_init()")
	}
	return m, nil
}

// Switches runs fn with the configuration; fn may use only settings that belong to no device. Before the devices are
// listed, the configuration is a draft, which is applied when they are.
func (p *State) Switches(fn func(*config.State) error) error {
	p.mu.Lock()
	if m := p.manager.Load(); m != nil {
		p.mu.Unlock()
		return m.Configure(fn)
	}
	defer p.mu.Unlock()
	if p.draft == nil {
		p.draft = config.New(nil)
	}
	return fn(p.draft)
}

// Work returns the operations on the devices, which must have been listed.
func (p *State) Work() (*Work, error) {
	if _, err := p.Manager(); err != nil {
		return nil, err
	}
	w := p.work.Load()
	if w == nil { // reset meanwhile
		return nil, errReset()
	}
	return w, nil
}

// Initialize creates the logical devices, unless they exist.
func (p *State) Initialize(env config.Env, origin string) (*devmgr.Manager, error) {
	w, err := p.Work()
	if err != nil {
		return nil, err
	}
	if err := w.initialize(env, origin, p.nextGeneration); err != nil {
		return nil, err
	}
	p.publishFrom(w.manager, env)
	return w.manager, w.prepare()
}

// Enumerate lists the devices, unless they are listed already, and returns the simulated machine's specification.
func (p *State) Enumerate(env config.Env) (*devmgr.Manager, string, error) {
	if err := Alive(); err != nil {
		return nil, "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.manager.Load(); m != nil {
		return m, p.spec, nil
	}
	machine, err := openMachine(p.asked, env)
	if err != nil {
		return nil, "", err
	}
	m, err := devmgr.New(machine.driver, env)
	if err != nil {
		return nil, "", err
	}
	m.ExplainNoGPU(machine.whyNone)
	if machine.spec == "" {
		m.DescribeProcesses(describeNeighbors, false)
	} else {
		m.DescribeProcesses(p.describeLeases, true)
	}
	if p.running != nil {
		if err := m.Record(p.running.recorder); err != nil {
			return nil, "", errors.Join(err, m.Close(true))
		}
	}
	if p.publication != nil {
		if err := p.publishLocked(m); err != nil {
			return nil, "", errors.Join(err, m.Close(true))
		}
	}
	if p.draft != nil {
		if err := m.Configure(func(s *config.State) error { s.TakeSwitches(p.draft); return nil }); err != nil {
			return nil, "", err
		}
		p.draft = nil
	}
	p.spec = machine.spec
	p.notices = append(p.notices, machine.notices...)
	cpu := computeOnHost(env)
	p.work.Store(&Work{manager: m, cpu: cpu, compute: arithmetic(machine.driver, m, env, cpu)})
	if driver, ok := machine.driver.(gpu.CaptureInfo); ok {
		threads.CaptureInfo(driver.CaptureInfoFunction())
	}
	cuda.TellIdle(threads.Idle)
	p.manager.Store(m)
	return m, p.spec, nil
}

// Simulate selects the machine for the next Enumerate and releases the current devices, which must not be in use. An
// empty text leaves the choice to the environment. It returns the previous and the new choice. Beside a driver of
// NVIDIA's it fails, and changes nothing.
func (p *State) Simulate(text string) (before, now string, err error) {
	if text != "" {
		spec, err := models.ParseSpec(text)
		if err != nil {
			return "", "", err
		}
		text = spec.String()
		closeSurveyor()
		if err := cuda.RefuseBesideDriver(); err != nil {
			return "", "", err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closeLocked(); err != nil {
		return "", "", err
	}
	before, p.asked = p.asked, text
	return before, text, nil
}

// Reset releases the devices, which must not be in use. The choice of the machine stays.
func (p *State) Reset() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closeLocked()
}

// closeLocked releases the devices and ends a recording. If memory is in use, it fails and changes nothing. A driver
// error while closing becomes a notice, because the devices are released anyway.
func (p *State) closeLocked() error {
	m := p.manager.Load()
	if m == nil {
		p.draft = nil
		p.endRecordingLocked()
		return nil
	}
	err := p.work.Load().end(func() error { return m.Close(false) })
	if !m.Closed() {
		return err // in use
	}
	p.nextGeneration()
	threads.CaptureInfo(0)
	p.endRecordingLocked()
	p.manager.Store(nil)
	p.work.Store(nil)
	p.spec, p.notices = "", nil
	p.endPublicationLocked()
	if err != nil {
		p.notices = []config.Notice{
			{Level: "warning", Text: fmt.Sprintf("some devices were not released cleanly: %v", err)}}
	}
	return nil
}

// DrainNotices returns and clears the pending notices for the user, oldest first.
func (p *State) DrainNotices() []config.Notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	drained := p.notices
	p.notices = nil
	if w := p.work.Load(); w != nil {
		drained = append(append(drained, w.manager.DrainNotices()...), w.drainWarnings()...)
	}
	return drained
}
