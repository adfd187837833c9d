package runtime

import (
	"gpuconf/gocore/config"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/sim"
	"gpuconf/gocore/visible"
)

// openMachine gives the driver of the machine to run on: the one that was asked for in a call, else that of GPUCONF_SIMULATE,
// else none, which is a machine without GPUs. CUDA_VISIBLE_DEVICES filters simulated GPUs as it does real ones.
//
// spec is canonical; it is "" on a machine that is not simulated.
func openMachine(asked string, env config.Env) (driver gpu.Driver, spec string, notices []config.Notice, err error) {
	if asked == "" {
		asked = env["GPUCONF_SIMULATE"]
	}
	if asked == "" {
		return nil, "", nil, nil
	}
	parsed, err := sim.ParseSpec(asked)
	if err != nil {
		return nil, "", nil, err
	}
	indices, said := visible.Select(visibleEnv(env), parsed.Identities())
	for _, text := range said {
		notices = append(notices, config.Notice{Level: "warning", Text: text})
	}
	machine, err := sim.New(parsed, sim.Options{Visible: indices})
	if err != nil {
		return nil, "", nil, err
	}
	return machine, parsed.String(), notices, nil
}

func visibleEnv(env config.Env) visible.Env {
	return visible.Env{VisibleDevices: lookup(env, "CUDA_VISIBLE_DEVICES"), DeviceOrder: lookup(env, "CUDA_DEVICE_ORDER")}
}

func lookup(env config.Env, name string) *string {
	value, ok := env[name]
	if !ok {
		return nil
	}
	return &value
}
