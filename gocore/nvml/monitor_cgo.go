//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// monitor is a gpu.Monitor over go-nvml.
type monitor struct {
	lib  nvml.Interface
	host Host

	mu     sync.RWMutex // held for reading by every call, for writing by Close
	closed bool         // guarded by mu
}

var _ gpu.Monitor = (*monitor)(nil)

// Over starts NVML behind lib and gives a Monitor over it. NVML counts its users: any number may live at once.
func Over(lib nvml.Interface, host Host) (gpu.Monitor, error) {
	if err := failure(lib.Init(), "nvmlInit"); err != nil {
		return nil, err
	}
	return &monitor{lib: lib, host: host}, nil
}

// enter begins a call; leave ends it, unless there is an error.
func (m *monitor) enter() (leave func(), err error) {
	m.mu.RLock()
	if m.closed {
		m.mu.RUnlock()
		return nil, status.Errorf(status.FailedPrecondition, "the monitor is closed")
	}
	return m.mu.RUnlock, nil
}

// Close ends this user of NVML. The library stays loaded.
func (m *monitor) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return failure(m.lib.Shutdown(), "nvmlShutdown")
}

// find gives the handle of a card or an instance.
func (m *monitor) find(uuid string) (nvml.Device, error) {
	device, ret := m.lib.DeviceGetHandleByUUID(uuid)
	switch Result(ret) {
	case ErrorInvalidArgument, ErrorNotFound: // what looks like no UUID, and what looks like one
		return nil, status.Errorf(status.NotFound, "this machine has no GPU and no MIG instance %q that NVML shows to this process", uuid)
	}
	return device, failure(ret, "nvmlDeviceGetHandleByUUID "+uuid)
}
