// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/lease/turns"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/pool/bfc"
)

// Messages of _core/generated/cards.py.

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

// Messages of _core/generated/visible.py.

// VisibleDevice is one GPU that this process sees, with all its names.
type VisibleDevice struct {
	CUDAOrdinal int `py:"cuda_ordinal"` // its number in CUDA and PyTorch, after CUDA_VISIBLE_DEVICES
	// Its name in list_physical_devices(); None if its compute capability is too low to be listed.
	PhysicalDevice *string `py:"physical_device"`
	Name           string  `py:"name"`       // the product
	UUID           string  `py:"uuid"`       // "GPU-...", or "MIG-..." for an instance; valid in CUDA_VISIBLE_DEVICES
	PCIBusID       string  `py:"pci_bus_id"` // as the driver writes it
	// Its number in nvidia-smi; None if NVML does not report it, as for simulated GPUs.
	NVMLIndex         *int   `py:"nvml_index"`
	ComputeCapability [2]int `py:"compute_capability"` // major and minor
	TotalMemory       uint64 `py:"total_memory"`       // bytes
	// "dedicated" for the GPU's own memory, "unified" for the host's, which the GPU shares (GB10, Jetson), "coherent"
	// for the GPU's own memory that the CPU can also access (GH200).
	MemoryKind   string `py:"memory_kind" default:"dedicated"`
	MemorySource string `py:"memory_source" default:"CUDA"` // where total_memory comes from: "CUDA" or "simulation"
}

// Messages of _core/generated/details.py.

// DeviceDetails is what is known of a physical device.
type DeviceDetails struct {
	Name       string `py:"device_name"` // the product
	Major      int    `py:"major"`       // of the compute capability
	Minor      int    `py:"minor"`       // of the compute capability
	TotalBytes uint64 `py:"total_bytes"` // its memory
	UUID       string `py:"uuid"`        // "GPU-..." or "MIG-..."
}

// Messages of _core/generated/stats.py.

// DeviceUsage is the memory in use on a device that a text names.
type DeviceUsage struct {
	Device string    `py:"device"` // such as "GPU:0"
	Usage  bfc.Usage `py:"usage"`  // what is in use
}

// PeakStart is the start of a measurement of the peak on one logical GPU.
type PeakStart struct {
	GPU    int64     `py:"gpu"`    // the GPU's number
	ID     int64     `py:"id"`     // identifies the measurement until it ends
	Before bfc.Usage `py:"before"` // what was in use
}

// Messages of _core/generated/memorymap.py.

// Chunk is a chunk of a region: a block in use, or free memory.
type Chunk struct {
	Address   uint64 `py:"address"`            // of the first byte
	Bytes     uint64 `py:"nbytes"`             // its size
	Requested uint64 `py:"requested"`          // the requested size; 0 for free memory
	InUse     bool   `py:"in_use"`             // whether it is a block
	Library   string `py:"library" default:""` // as in UsageRow; "" for free memory
	Tag       string `py:"tag" default:""`     // "" for untagged and for free memory
}

// Region is a contiguous range that the pool has reserved on the GPU. Its chunks cover it, in order of address.
type Region struct {
	Address uint64  `py:"address"` // of the first byte
	Bytes   uint64  `py:"nbytes"`  // its size
	Chunks  []Chunk `py:"chunks"`  // in order of address
}

// MemoryMap is all regions of a pool, in order of address.
type MemoryMap struct {
	Device              string   `py:"device"`               // such as "GPU:0"
	BytesLimit          uint64   `py:"bytes_limit"`          // the pool's hard limit
	Regions             []Region `py:"regions"`              // in order of address
	OversubscribedBytes uint64   `py:"oversubscribed_bytes"` // as in MemoryStats
}

// Messages of _core/generated/fleet.py.

// FleetBatch is equal cards of a fleet.
type FleetBatch struct {
	Name     string          `py:"gpu"`      // the model, as for gpuconf.simulate
	Count    int             `py:"count"`    // how many cards
	Memory   uint64          `py:"memory"`   // of each card, in bytes
	Leasable uint64          `py:"leasable"` // the most that one process can lease of a card, in bytes
	Context  uint64          `py:"context"`  // what a lease takes besides, in bytes, for the CUDA context of its process
	Product  string          `py:"product"`  // as a driver reports it
	Virtual  bool            `py:"virtual"`  // whether it has virtual memory management
	Compute  [2]int          `py:"compute"`  // its compute capability
	Hardware models.Hardware `py:"hardware"` // what workspaces depend on
}

// Messages of _core/generated/ledger.py.

// Grant is the state of a claim of this process.
type Grant struct {
	ID         ledger.ID          `py:"id"`         // the claim's, 32 hexadecimal digits
	Cards      []ledger.CardLease `py:"cards"`      // the leased cards; none while the claim waits
	Descriptor int                `py:"descriptor"` // the open file that holds the claim
}

// Nap is the arguments of nap(), which sleeps until it is worth looking again at a ledger.
type Nap struct {
	Word         uint32 `py:"word"`         // the number of the word to sleep on
	Was          uint32 `py:"was"`          // what the word was
	Milliseconds int64  `py:"milliseconds"` // the longest time to sleep
	Deaf         bool   `py:"deaf"`         // there is no word: sleep for all of the time
}

// LedgerRows is all that is alive in a ledger.
type LedgerRows struct {
	Claims    []ledger.ClaimRow   `py:"claims"`    // in the order of their tickets
	Processes []ledger.ProcessRow `py:"processes"` // those that publish figures
}

// TurnPlans is how each claim that waits gets its cards.
type TurnPlans struct {
	Now   time.Duration `py:"now"`   // since boot, as all times of plans
	Plans []turns.Plan  `py:"plans"` // in the order of the requests
}
