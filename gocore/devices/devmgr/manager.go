// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
)

// Manager is the devices of one runtime. See the package comment for its states and locks.
type Manager struct {
	driver gpu.Driver // nil on a machine without GPUs; immutable

	mu        sync.RWMutex
	state     *config.State           // guarded by mu
	found     []gpu.Device            // all GPUs that the process sees; immutable
	listed    []gpu.Device            // the GPUs of the physical list, in its order; immutable
	processes func(gpu.Device) string // describes the processes that use a GPU; nil: unknown; immutable
	shared    bool                    // processes matters for every limit; immutable
	whyNone   string                  // why found is empty, "" if unknown; immutable
	logical   []LogicalDevice         // guarded by mu; empty before initialization
	names     []devname.Name          // guarded by mu; the full names of logical
	gpus      []*pool                 // guarded by mu; by number, as in GPU:0, GPU:1
	layout    config.Layout           // guarded by mu; what gpus was built from
	builtBy   string                  // guarded by mu; the call that built it, as "file:line (call)"
	hot       atomic.Pointer[[]*pool] // gpus, for the fast path (hot.go); written with mu held
	owners    owners                  // which pool an address belongs to
	streams   ownStreams              // which pool a stream stands for
	closed    bool                    // guarded by mu

	recorder *trace.Recorder // guarded by mu; nil: nothing is recorded
	failure  *bfc.Failure    // guarded by mu; nil: none was injected

	publisher Publisher // guarded by mu; nil: the figures are not published

	saidPeers bool // noticePeers has said what it says; guarded by mu
	noticesMu sync.Mutex
	notices   []config.Notice // guarded by noticesMu
}

// LogicalDevice is a device that operations and memory can be placed on.
type LogicalDevice struct {
	Name     string // "/device:GPU:0"
	FullName string // "/job:localhost/replica:0/task:0/device:GPU:0"
	Type     string // "CPU" or "GPU"
	Ordinal  int    // the CUDA device of a GPU; -1 for a CPU

	gpu int // the number in gpus, or -1
}

// localTask is the prefix of the full name of every device of this process.
const localTask = "/job:localhost/replica:0/task:0"

// New lists the machine's physical devices: the CPU, then the GPUs that meet the minimum requirements. driver may be
// nil, for a machine without GPUs. The Manager takes ownership of the driver and closes it, also if New fails.
func New(driver gpu.Driver, env config.Env) (*Manager, error) {
	m := &Manager{driver: driver}
	physical, err := m.enumerate(env)
	if err != nil {
		return nil, errors.Join(err, closeDriver(driver))
	}
	m.state = config.New(physical)
	return m, nil
}

// Configure calls fn with exclusive access to the configuration. fn must not retain the state.
func (m *Manager) Configure(fn func(*config.State) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	return fn(m.state)
}

// Inspect calls fn with shared access to the configuration. fn must not change or retain the state.
func (m *Manager) Inspect(fn func(*config.State) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return errClosed()
	}
	return fn(m.state)
}

// LogicalDevices lists the logical devices in TensorFlow's order: CPUs before GPUs, by number. Empty before
// initialization.
func (m *Manager) LogicalDevices() ([]LogicalDevice, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed()
	}
	return slices.Clone(m.logical), nil
}

// Close releases every pool, every context and the driver. While blocks are live it returns FailedPrecondition and
// changes nothing, unless force is set. A second Close does nothing. Any other error is the driver's; the Manager is
// closed nevertheless.
func (m *Manager) Close(force bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	if live := m.sealLocked(); live != "" && !force {
		m.unsealLocked()
		return status.Errorf(status.FailedPrecondition, "memory is still in use: %s. Free it first", live)
	}
	m.closed = true
	m.hot.Store(nil)
	m.streams.owners.Store(nil)
	err := closePools(m.driver, m.gpus)
	m.gpus, m.logical, m.names = nil, nil, nil
	err = errors.Join(err, m.publishLocked(nil))
	return errors.Join(err, closeDriver(m.driver))
}

func closeDriver(driver gpu.Driver) error {
	if driver == nil {
		return nil
	}
	if err := driver.Close(); err != nil {
		return driverError(err, "cannot shut down the GPU driver")
	}
	return nil
}

// sealLocked stops all allocations and describes the live blocks and captured graphs of each GPU; "" if there are none.
// The caller must then close the pools or call unsealLocked (invariant 4).
func (m *Manager) sealLocked() (live string) {
	for _, p := range m.gpus {
		p.bfc.Seal()
	}
	var parts []string
	for _, p := range m.gpus {
		p.captures.reclaim(p.bfc)
		s := p.bfc.Stats()
		if s.LiveBlocks > 0 {
			parts = append(parts, fmt.Sprintf("%s on %s (%s)", human.Count(s.LiveBlocks, "block"), shortName(p.number),
				human.Bytes(s.BytesInUse)))
		}
		if n := p.captures.alive.Load(); n > 0 {
			parts = append(parts, fmt.Sprintf("%s with memory on %s (%s freed)",
				human.Count(uint64(n), "captured graph"), shortName(p.number), human.Bytes(s.CapturedBytes)))
		}
	}
	return strings.Join(parts, ", ")
}

func (m *Manager) unsealLocked() {
	for _, p := range m.gpus {
		p.bfc.Unseal()
	}
}

// Closed reports whether Close has released everything.
func (m *Manager) Closed() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.closed
}

// Physical returns the physical GPU of a logical GPU.
func (m *Manager) Physical(number int) (device gpu.Device, err error) {
	err = m.onPool(number, func(p *pool) { device = p.device })
	return device, err
}

// HostVisible reports whether device addresses are host addresses.
func (m *Manager) HostVisible() bool { return m.driver != nil && m.driver.HostVisible() }

// LogicalGPUs counts the logical GPUs.
func (m *Manager) LogicalGPUs() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.gpus)
}

// DrainNotices returns the notices for the user since the last call, oldest first.
func (m *Manager) DrainNotices() []config.Notice {
	m.noticesMu.Lock()
	defer m.noticesMu.Unlock()
	drained := m.notices
	m.notices = nil
	return drained
}

// HasNotices reports whether DrainNotices would return any.
func (m *Manager) HasNotices() bool {
	m.noticesMu.Lock()
	defer m.noticesMu.Unlock()
	return len(m.notices) > 0
}

func (m *Manager) noticef(level, format string, args ...any) {
	m.notice(config.Notice{Level: level, Text: fmt.Sprintf(format, args...)})
}

func (m *Manager) notice(notices ...config.Notice) {
	m.noticesMu.Lock()
	defer m.noticesMu.Unlock()
	m.notices = append(m.notices, notices...)
}

// readyLocked returns an error unless the logical devices exist.
func (m *Manager) readyLocked() error {
	if m.closed {
		return errClosed()
	}
	if !m.state.Initialized() {
		return status.Errorf(status.FailedPrecondition,
			"gpuconf is not initialized yet; call gpuconf.config.list_logical_devices() first")
	}
	return nil
}

func errClosed() error {
	return status.Errorf(status.FailedPrecondition, "this runtime was reset; list the devices again")
}

func shortName(number int) string { return fmt.Sprintf("GPU:%d", number) }

// ExplainNoGPU records why the machine has no GPU, as a clause for later errors. It must be called before the Manager
// is shared. The first reason is kept.
func (m *Manager) ExplainNoGPU(why string) {
	if m.whyNone == "" {
		m.whyNone = why
	}
}

// WhyNoGPU returns why the process has no logical GPU, as a clause; "" if that is unknown.
func (m *Manager) WhyNoGPU() string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	why, _ := m.whyNoGPULocked()
	return why
}

// noGPULocked is the text of an error: that there is no logical GPU, the reason if known, and what to do.
func (m *Manager) noGPULocked() string {
	why, remedy := m.whyNoGPULocked()
	if why != "" {
		why = ": " + why
	}
	return fmt.Sprintf("this process has no logical GPU%s. %s", why, remedy)
}

func (m *Manager) whyNoGPULocked() (why, remedy string) {
	why, remedy = m.whyNone, "Simulate one with gpuconf.simulate(\"H100-80GB\") or GPUCONF_SIMULATE=H100-80GB"
	switch listed := uint64(len(m.listed)); {
	case listed > 0:
		why, remedy = human.Count(listed, "GPU")+" in the physical device list, but none is visible "+
			"(set_visible_devices)",
			"Call gpuconf.reset() and leave at least one visible"
	case len(m.found) > 0:
		why = human.Count(uint64(len(m.found)), "GPU") + " on this machine, but none meets the minimum requirements " +
			"(see the gpuconf logger)"
	case m.HostVisible() && strings.HasPrefix(why, "CUDA_VISIBLE_DEVICES"):
		remedy = "Unset CUDA_VISIBLE_DEVICES, or set it to numbers of simulated GPUs, such as 0"
	}
	return why, remedy
}

func (m *Manager) errNoGPULocked(asked string) error {
	have := len(m.gpus)
	if have == 0 {
		return status.Errorf(status.InvalidArgument, "unknown device %s: %s", asked, m.noGPULocked())
	}
	return status.Errorf(status.InvalidArgument, "unknown device %s: this process has %s (GPU:0 to GPU:%d)", asked,
		human.Count(uint64(have), "logical GPU"), have-1)
}

// Check verifies every invariant of the configuration and of every pool, and that owners contains exactly the pools'
// memory. It excludes all other calls.
func (m *Manager) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	if err := m.state.Check(); err != nil {
		return status.Errorf(status.Internal, "configuration: %w", err)
	}
	owned := 0
	for _, p := range m.gpus {
		n, err := m.checkPoolLocked(p)
		if err != nil {
			return err
		}
		owned += n
	}
	if known := len(m.owners.all()); known != owned {
		return status.Errorf(status.Internal, "invariant 2: %d address ranges have an owner, but the pools hold %d",
			known, owned)
	}
	return nil
}

// checkPoolLocked checks one pool and counts the address ranges that owners should have for it: a growing pool's range
// is one, whatever is mapped in it, and so is each region outside it.
func (m *Manager) checkPoolLocked(p *pool) (owned int, err error) {
	if err := p.bfc.Check(); err != nil {
		return 0, status.Errorf(status.Internal, "%s: %w", shortName(p.number), err)
	}
	var start, end uint64
	if p.virtual != nil {
		if err := p.virtual.Check(); err != nil {
			return 0, status.Errorf(status.Internal, "%s: %w", shortName(p.number), err)
		}
		addr, bytes, _ := p.virtual.Range()
		start, end = addr, addr+bytes
		if bytes > 0 {
			owned++
		}
	}
	for _, r := range p.bfc.MemoryMap().Regions {
		if m.owners.find(r.Addr) != p || m.owners.find(r.Addr+r.Bytes-1) != p {
			return 0, status.Errorf(status.Internal, "invariant 2: the region of %d bytes at %#x is not registered "+
				"as owned by %s",
				r.Bytes, r.Addr, shortName(p.number))
		}
		if r.Addr < start || r.Addr >= end {
			owned++
		}
	}
	return owned, nil
}
