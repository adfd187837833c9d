// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// monitor is a gpu.Monitor over go-nvml.
type monitor struct {
	lib  nvml.Interface
	host Host
	done func() // called after Close

	mu     sync.RWMutex // held for reading by every call, for writing by Close
	closed bool         // guarded by mu
}

var _ gpu.Monitor = (*monitor)(nil)

// Over initializes NVML through lib and returns a Monitor. NVML counts its users, so any number of Monitors may be open
// at once.
func Over(lib nvml.Interface, host Host) (gpu.Monitor, error) { return over(lib, host, func() {}) }

func over(lib nvml.Interface, host Host, done func()) (gpu.Monitor, error) {
	if err := failure(lib.Init(), "nvmlInit"); err != nil {
		return nil, err
	}
	return &monitor{lib: lib, host: host, done: done}, nil
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

// Close shuts down NVML for this Monitor. The library is unloaded after the last one, unless other code has loaded it.
func (m *monitor) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	defer m.done()
	return failure(m.lib.Shutdown(), "nvmlShutdown")
}

// find returns the handle of a card or an instance.
func (m *monitor) find(uuid string) (nvml.Device, error) {
	device, ret := m.lib.DeviceGetHandleByUUID(uuid)
	switch Result(ret) {
	case ErrorInvalidArgument, ErrorNotFound: // a malformed UUID, and an unknown one
		return nil, status.Errorf(status.NotFound, "unknown UUID %q: NVML lists no such GPU or MIG instance for "+
			"this process", uuid)
	}
	return device, failure(ret, "nvmlDeviceGetHandleByUUID "+uuid)
}
