package runtime

import (
	"fmt"

	"gpuconf/gocore/config"
	"gpuconf/gocore/cuda"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/sim"
	"gpuconf/gocore/status"
	"gpuconf/gocore/visible"
)

// openMachine gives the driver of the machine to run on: the one that was asked for in a call, else that of GPUCONF_SIMULATE,
// else this computer's, which is nil without a working CUDA driver.
//
// spec is canonical; it is "" on a machine that is not simulated.
func openMachine(asked string, env config.Env) (driver gpu.Driver, spec string, notices []config.Notice, err error) {
	if asked == "" {
		asked = env["GPUCONF_SIMULATE"]
	}
	if asked == "" {
		driver, notices, err = openCUDA()
		return driver, "", notices, err
	}
	return openSimulated(asked, env)
}

// openCUDA gives the real driver. Without one a machine has no GPUs, which is no error: a notice says what is missing.
func openCUDA() (gpu.Driver, []config.Notice, error) {
	driver, err := cuda.Open()
	if status.CodeOf(err) == status.Unavailable {
		return nil, []config.Notice{{Level: "info", Text: fmt.Sprintf("no GPUs: %v", err)}}, nil
	}
	return driver, nil, err
}

// openSimulated makes the machine of a specification. CUDA_VISIBLE_DEVICES filters its GPUs as the driver does real ones.
func openSimulated(asked string, env config.Env) (driver gpu.Driver, spec string, notices []config.Notice, err error) {
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
