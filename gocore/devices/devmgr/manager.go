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
func (m *Manager) Physical(number int) (gpu.Device, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return gpu.Device{}, err
	}
	return p.device, nil
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
