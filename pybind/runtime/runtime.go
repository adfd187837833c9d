package runtime

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/config"
	"gpuconf/gocore/devmgr"
	"gpuconf/gocore/graph"
	"gpuconf/gocore/sim"
	"gpuconf/gocore/status"
)

// Runtime is the machine that a process runs on and the devices made of it.
type Runtime struct {
	mu      sync.Mutex
	asked   string          // guarded by mu; what Simulate chose, "" for the environment's choice
	spec    string          // guarded by mu; the machine that is simulated, "" for none
	notices []config.Notice // guarded by mu; of the machine, not of the devices
	running *recording      // guarded by mu; nil: no recording runs
	draft   *config.State   // guarded by mu; the switches that were set before the devices are listed; nil for none

	manager    atomic.Pointer[devmgr.Manager] // written with mu held; nil while empty
	work       atomic.Pointer[Work]           // written with mu held; that of manager
	generation atomic.Uint32                  // counts the Managers that were given up, and the times that logical devices were renamed

	graphs     table[*graph.Graph]
	sessions   table[*Session]
	recordings table[*recording]
}

// Generation counts the resets so far. What was derived from the devices before one means nothing after it.
func (r *Runtime) Generation() uint32 { return r.generation.Load() }

// shared is the one process-wide state of gpuconf.
var shared Runtime

// Shared gives the runtime of this process.
func Shared() *Runtime { return &shared }

// Manager gives the devices. They must have been listed: FailedPrecondition otherwise.
func (r *Runtime) Manager() (*devmgr.Manager, error) {
	if err := Alive(); err != nil {
		return nil, err
	}
	m := r.manager.Load()
	if m == nil {
		return nil, status.Errorf(status.FailedPrecondition, "no devices are listed yet; call gpuconf.config.list_logical_devices() first")
	}
	return m, nil
}

// Switches runs fn with the configuration, of which it uses only what belongs to no device. Before the devices are listed that
// is a draft, which they take over.
func (r *Runtime) Switches(fn func(*config.State) error) error {
	if err := Alive(); err != nil {
		return err
	}
	r.mu.Lock()
	if m := r.manager.Load(); m != nil {
		r.mu.Unlock()
		return m.Configure(fn)
	}
	defer r.mu.Unlock()
	if r.draft == nil {
		r.draft = config.New(nil)
	}
	return fn(r.draft)
}

// Work gives the operations on the devices, which must have been listed.
func (r *Runtime) Work() (*Work, error) {
	if _, err := r.Manager(); err != nil {
		return nil, err
	}
	w := r.work.Load()
	if w == nil { // a reset came in between
		return nil, errReset()
	}
	return w, nil
}

// Initialize builds the logical devices, unless they are there.
func (r *Runtime) Initialize(env config.Env, origin string) (*devmgr.Manager, error) {
	w, err := r.Work()
	if err != nil {
		return nil, err
	}
	if err := w.manager.Initialize(env, origin); err != nil {
		return nil, err
	}
	return w.manager, w.prepare()
}

// Enumerate lists the devices, unless they are listed already, and tells the simulated machine's specification.
func (r *Runtime) Enumerate(env config.Env) (*devmgr.Manager, string, error) {
	if err := Alive(); err != nil {
		return nil, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.manager.Load(); m != nil {
		return m, r.spec, nil
	}
	machine, err := openMachine(r.asked, env)
	if err != nil {
		return nil, "", err
	}
	m, err := devmgr.New(machine.driver, env)
	if err != nil {
		return nil, "", err
	}
	m.ExplainNoGPU(machine.whyNone)
	if r.running != nil {
		if err := m.Record(r.running.recorder); err != nil {
			return nil, "", errors.Join(err, m.Close(true))
		}
	}
	if r.draft != nil {
		if err := m.Configure(func(s *config.State) error { s.TakeSwitches(r.draft); return nil }); err != nil {
			return nil, "", err
		}
		r.draft = nil
	}
	r.spec = machine.spec
	r.notices = append(r.notices, machine.notices...)
	r.work.Store(&Work{manager: m, compute: arithmetic(machine.driver, m, env)})
	r.manager.Store(m)
	return m, r.spec, nil
}

// Simulate chooses the machine of the next Enumerate and gives up the present devices, which must not be in use. An
// empty text leaves the choice to the environment. It tells the choices before and now.
func (r *Runtime) Simulate(text string) (before, now string, err error) {
	if err := Alive(); err != nil {
		return "", "", err
	}
	if text != "" {
		spec, err := sim.ParseSpec(text)
		if err != nil {
			return "", "", err
		}
		text = spec.String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.closeLocked(); err != nil {
		return "", "", err
	}
	before, r.asked = r.asked, text
	return before, text, nil
}

// Reset gives up the devices, which must not be in use. The choice of the machine stays.
func (r *Runtime) Reset() error {
	if err := Alive(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closeLocked()
}

// closeLocked empties the runtime, and ends a recording. Memory in use makes it fail and change nothing; what the driver says while it ends is
// a notice, because the devices are gone all the same.
func (r *Runtime) closeLocked() error {
	m := r.manager.Load()
	if m == nil {
		r.draft = nil
		r.endRecordingLocked()
		return nil
	}
	err := r.work.Load().end(func() error { return m.Close(false) })
	if !m.Closed() {
		return err // in use
	}
	r.generation.Add(1)
	r.endRecordingLocked()
	r.manager.Store(nil)
	r.work.Store(nil)
	r.spec, r.notices = "", nil
	if err != nil {
		r.notices = []config.Notice{{Level: "warning", Text: fmt.Sprintf("the devices were given up, but not all went well: %v", err)}}
	}
	return nil
}

// DrainNotices hands out what a person may want to know, oldest first, once.
func (r *Runtime) DrainNotices() []config.Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	drained := r.notices
	r.notices = nil
	if w := r.work.Load(); w != nil {
		drained = append(append(drained, w.manager.DrainNotices()...), w.drainWarnings()...)
	}
	return drained
}
