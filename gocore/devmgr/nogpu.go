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
		why, remedy = human.Count(listed, "GPU")+" of the physical list, but none was left visible (set_visible_devices)",
			"Call gpuconf.reset(), and leave some"
	case len(m.found) > 0:
		why = human.Count(uint64(len(m.found)), "GPU") + " of the machine, but none that is strong enough (the logger gpuconf says more)"
	}
	if why != "" {
		why = ": " + why
	}
	return fmt.Sprintf("this process has no logical GPU%s. %s", why, remedy)
}

func (m *Manager) errNoGPULocked(asked string) error {
	have := len(m.gpus)
	if have == 0 {
		return status.Errorf(status.InvalidArgument, "%s is not there: %s", asked, m.noGPULocked())
	}
	return status.Errorf(status.InvalidArgument, "%s is not there: this process has %s (GPU:0 to GPU:%d)", asked, human.Count(uint64(have), "logical GPU"), have-1)
}
