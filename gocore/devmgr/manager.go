package devmgr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/config"
	"gpuconf/gocore/devname"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/human"
	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
)

// Manager is the devices of one runtime. See the package comment for its states and locks.
type Manager struct {
	driver gpu.Driver // nil on a machine without GPUs; immutable

	mu      sync.RWMutex
	state   *config.State           // guarded by mu
	found   []gpu.Device            // all GPUs that the process sees; immutable
	listed  []gpu.Device            // the GPUs of the physical list, in its order; immutable
	whyNone string                  // why found is empty, "" where nobody knows; immutable
	logical []LogicalDevice         // guarded by mu; empty before initialisation
	names   []devname.Name          // guarded by mu; the full names of logical
	gpus    []*pool                 // guarded by mu; by number, as in GPU:0, GPU:1
	layout  config.Layout           // guarded by mu; what gpus was built from
	builtBy string                  // guarded by mu; who asked for that, as "file:line (call)"
	hot     atomic.Pointer[[]*pool] // gpus, for those who allocate without mu; written with mu held
	owners  owners                  // which pool an address belongs to
	streams ownStreams              // which pool a stream stands for
	closed  bool                    // guarded by mu

	recorder *trace.Recorder // guarded by mu; nil: nothing is recorded

	noticesMu sync.Mutex
	notices   []config.Notice // guarded by noticesMu
}

// LogicalDevice is one device that operations and memory can be put on.
type LogicalDevice struct {
	Name     string // "/device:GPU:0"
	FullName string // "/job:localhost/replica:0/task:0/device:GPU:0"
	Type     string // "CPU" or "GPU"
	Ordinal  int    // the CUDA device below a GPU; -1 for a CPU

	gpu int // the number in gpus, or -1
}

// localTask begins the full name of every device of this process.
const localTask = "/job:localhost/replica:0/task:0"

// New lists the machine's physical devices: the CPU, then the GPUs that are strong enough. driver may be nil: a machine
// without GPUs. The Manager owns the driver from here on and closes it, also when New fails.
func New(driver gpu.Driver, env config.Env) (*Manager, error) {
	m := &Manager{driver: driver}
	physical, err := m.enumerate(env)
	if err != nil {
		return nil, errors.Join(err, closeDriver(driver))
	}
	m.state = config.New(physical)
	return m, nil
}

// Configure runs fn with the configuration, alone. fn must not keep the state.
func (m *Manager) Configure(fn func(*config.State) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	return fn(m.state)
}

// Inspect runs fn with the configuration, beside other readers. fn must not change or keep the state.
func (m *Manager) Inspect(fn func(*config.State) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return errClosed()
	}
	return fn(m.state)
}

// LogicalDevices lists the logical devices in TensorFlow's order: CPUs before GPUs, by number. Empty before initialisation.
func (m *Manager) LogicalDevices() ([]LogicalDevice, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed()
	}
	return slices.Clone(m.logical), nil
}

// Close gives every pool, every context and the driver back. While blocks are live it refuses with
// FailedPrecondition and changes nothing, unless force is set. A second Close does nothing. Any other error is what the driver
// said; the Manager is closed all the same.
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
	err := errors.Join(m.closeStreams(), closePools(m.driver, m.gpus))
	m.gpus, m.logical, m.names = nil, nil, nil
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

// sealLocked stops all allocations, and names the GPUs that have live blocks or captured graphs, with numbers; "" where none has. Either the pools
// are closed then or unsealLocked lets allocations in again.
func (m *Manager) sealLocked() (live string) {
	for _, p := range m.gpus {
		p.bfc.Seal()
	}
	var told []string
	for _, p := range m.gpus {
		p.captures.reclaim(p.bfc)
		s := p.bfc.Stats()
		if s.LiveBlocks > 0 {
			told = append(told, fmt.Sprintf("%s on %s (%s)", human.Count(s.LiveBlocks, "block"), shortName(p.number), human.Bytes(s.BytesInUse)))
		}
		if n := p.captures.alive.Load(); n > 0 {
			told = append(told, fmt.Sprintf("%s with memory on %s (%s freed)", human.Count(uint64(n), "captured graph"), shortName(p.number), human.Bytes(s.CapturedBytes)))
		}
	}
	return strings.Join(told, ", ")
}

func (m *Manager) unsealLocked() {
	for _, p := range m.gpus {
		p.bfc.Unseal()
	}
}

// Closed reports whether Close has given everything back.
func (m *Manager) Closed() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.closed
}

// Physical describes the GPU below a logical one.
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

// IndexOf gives the place of a logical GPU in LogicalDevices: the CPUs come first.
func (m *Manager) IndexOf(number int) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.logical) - len(m.gpus) + number
}

// DrainNotices hands out what happened that a person may want to know, oldest first, once.
func (m *Manager) DrainNotices() []config.Notice {
	m.noticesMu.Lock()
	defer m.noticesMu.Unlock()
	drained := m.notices
	m.notices = nil
	return drained
}

// HasNotices reports whether DrainNotices would give any.
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

// readyLocked refuses what needs the logical devices as long as they are not there.
func (m *Manager) readyLocked() error {
	if m.closed {
		return errClosed()
	}
	if !m.state.Initialized() {
		return status.Errorf(status.FailedPrecondition, "gpuconf is not initialised yet; call gpuconf.config.list_logical_devices() first")
	}
	return nil
}

func errClosed() error {
	return status.Errorf(status.FailedPrecondition, "this runtime was reset; list the devices again")
}

func shortName(number int) string { return fmt.Sprintf("GPU:%d", number) }
