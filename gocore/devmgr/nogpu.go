package devmgr

import (
	"fmt"

	"gpuconf/gocore/human"
	"gpuconf/gocore/status"
)

// ExplainNoGPU keeps why the machine shows no GPU, as the end of a sentence, for whoever asks for one. It is called before the Manager
// has a second user. The first reason counts.
func (m *Manager) ExplainNoGPU(why string) {
	if m.whyNone == "" {
		m.whyNone = why
	}
}

// noGPULocked says that there is no logical GPU, why, as far as that is known, and what to do.
func (m *Manager) noGPULocked() string {
	why, remedy := m.whyNone, "Simulate one with gpuconf.simulate(\"H100-80GB\") or GPUCONF_SIMULATE=H100-80GB"
	switch listed := uint64(len(m.listed)); {
	case listed > 0:
		why, remedy = human.Count(listed, "GPU")+" in the physical device list, but none is visible (set_visible_devices)",
			"Call gpuconf.reset() and leave at least one visible"
	case len(m.found) > 0:
		why = human.Count(uint64(len(m.found)), "GPU") + " on this machine, but none meets the minimum requirements (see the gpuconf logger)"
	}
	if why != "" {
		why = ": " + why
	}
	return fmt.Sprintf("this process has no logical GPU%s. %s", why, remedy)
}

func (m *Manager) errNoGPULocked(asked string) error {
	have := len(m.gpus)
	if have == 0 {
		return status.Errorf(status.InvalidArgument, "unknown device %s: %s", asked, m.noGPULocked())
	}
	return status.Errorf(status.InvalidArgument, "unknown device %s: this process has %s (GPU:0 to GPU:%d)", asked, human.Count(uint64(have), "logical GPU"), have-1)
}
