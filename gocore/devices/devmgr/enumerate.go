// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"fmt"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
)

// enumerate lists the physical devices and keeps the GPUs among them in m.listed. It creates no context.
func (m *Manager) enumerate(env config.Env) ([]config.PhysicalDevice, error) {
	enabled, notices, err := env.EnabledTypes([]string{"CPU", "GPU"})
	m.notice(notices...)
	if err != nil {
		return nil, err
	}
	physical := []config.PhysicalDevice{{Name: "/physical_device:CPU:0", Type: "CPU"}}
	if len(enabled) < 2 {
		m.ExplainNoGPU(fmt.Sprintf("TF_ENABLED_DEVICE_TYPES=%q excludes GPUs", env["TF_ENABLED_DEVICE_TYPES"]))
		return physical, nil
	}
	if m.driver == nil {
		return physical, nil
	}
	devices, err := m.driver.Devices()
	if err != nil {
		return nil, driverError(err, "cannot list the GPUs")
	}
	m.found = devices
	usable, notices := config.UsableGPUs(candidates(devices), env)
	m.notice(notices...)
	for _, i := range usable {
		m.listed = append(m.listed, devices[i])
		physical = append(physical, config.PhysicalDevice{Name: physicalName(devices[i].Ordinal), Type: "GPU"})
	}
	return physical, nil
}

func candidates(devices []gpu.Device) []config.Candidate {
	list := make([]config.Candidate, len(devices))
	for i, d := range devices {
		list[i] = candidate(d)
	}
	return list
}

func candidate(d gpu.Device) config.Candidate {
	return config.Candidate{
		Ordinal:         d.Ordinal,
		Name:            d.Name,
		PCIBusID:        d.PCIBusID,
		ComputeMajor:    d.ComputeMajor,
		ComputeMinor:    d.ComputeMinor,
		Multiprocessors: d.Multiprocessors,
	}
}

// Found returns all GPUs that the process sees, by ordinal, and the name of each in the physical list: "" for a GPU
// that does not meet the minimum requirements.
func (m *Manager) Found() (devices []gpu.Device, names []string, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, nil, errClosed()
	}
	names = make([]string, len(m.found))
	for i, d := range m.found {
		for _, listed := range m.listed {
			if listed.Ordinal == d.Ordinal {
				names[i] = physicalName(d.Ordinal)
			}
		}
	}
	return append([]gpu.Device(nil), m.found...), names, nil
}

func physicalName(ordinal int) string { return fmt.Sprintf("/physical_device:GPU:%d", ordinal) }

// Details describes the physical device at an index of the physical list; ok is false for the CPU.
func (m *Manager) Details(index int) (device gpu.Device, ok bool) {
	i := index - 1 // the CPU comes first
	if i < 0 || i >= len(m.listed) {
		return gpu.Device{}, false
	}
	return m.listed[i], true
}
