// SPDX-License-Identifier: Apache-2.0

package wire

// CardMemory is the memory of a card or a MIG instance; None where unknown. Unified memory is the host's, with all its
// uses.
type CardMemory struct {
	Kind   string  `py:"kind"`   // "dedicated", "unified" or "coherent"
	Total  *uint64 `py:"total"`  // all of it
	Used   *uint64 `py:"used"`   // what is in use, by whichever program
	Free   *uint64 `py:"free"`   // what is left
	Source *string `py:"source"` // where the numbers come from: "NVML", "/proc/meminfo" or "simulation"
}

// CardProcess is a process that uses a card, as the driver reports it.
type CardProcess struct {
	PID      int     `py:"pid"`      // on the host: see Survey.host_pids
	Bytes    *uint64 `py:"bytes"`    // None if the driver does not report it
	Instance *string `py:"instance"` // the UUID of the MIG instance that it uses
}

// CardInstance is a MIG instance of a card.
type CardInstance struct {
	UUID   string     `py:"uuid"`   // "MIG-..."
	Name   string     `py:"name"`   // its profile, such as "3g.20gb"
	Memory CardMemory `py:"memory"` // its own
}

// Card is one card of the machine. A text that could not be read is empty; errors says why.
type Card struct {
	Index             int            `py:"index"`              // its number in nvidia-smi
	UUID              string         `py:"uuid"`               // "GPU-..."
	Name              string         `py:"name"`               // the product
	PCIBusID          string         `py:"pci_bus_id"`         // as the driver writes it
	ComputeCapability [2]int         `py:"compute_capability"` // major and minor
	MIG               string         `py:"mig"`                // "none", "off", "on" or "unknown"
	Memory            CardMemory     `py:"memory"`             // its own
	Processes         []CardProcess  `py:"processes"`          // those that use it
	ProcessesError    *string        `py:"processes_error"`    // why the processes are unknown
	Instances         []CardInstance `py:"instances"`          // its MIG instances
	Errors            []string       `py:"errors"`             // what could not be read, and why
}

// Survey is all cards of the machine.
type Survey struct {
	Simulated *string `py:"simulated"` // the simulated machine's spec
	WhyNone   *string `py:"why_none"`  // why there is no card
	Driver    *string `py:"driver"`    // its version
	CUDA      *[2]int `py:"cuda"`      // the newest CUDA version that the driver supports
	HostPIDs  bool    `py:"host_pids"` // this process is in a container: the driver's PIDs are the host's
	Cards     []Card  `py:"cards"`     // in nvidia-smi's order
}

// SimulatedModel is a model that gpuconf.simulate knows.
type SimulatedModel struct {
	Name              string `py:"name"`               // in a spec
	Product           string `py:"product"`            // as a driver reports it
	Memory            uint64 `py:"memory"`             // bytes
	MemoryKind        string `py:"memory_kind"`        // as in CardMemory
	ComputeCapability [2]int `py:"compute_capability"` // major and minor
}
