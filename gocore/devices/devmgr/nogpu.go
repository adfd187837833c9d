// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"fmt"
	"strings"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
)

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
