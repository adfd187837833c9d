// SPDX-License-Identifier: Apache-2.0

package gpu

// Monitor queries the machine's GPUs without CUDA.
//
// # What gpuconf relies on
//
//  1. No call creates a CUDA context or takes device memory.
//  2. Cards lists every GPU that the process may open, regardless of CUDA_VISIBLE_DEVICES. The order differs from
//     CUDA's and may change after a reboot. Match a card with a Device by UUID, else by PCI bus id, never by
//     index.
//  3. A card that cannot be read does not hide the others: it is listed with what is known, and Card.Err says what
//     failed.
//  4. A query returns one of three results: a value with a nil error; an error of kind status.Unimplemented, if this
//     GPU or its driver does not report the value; or any other error. The second is shown as unknown, never as 0.
//  5. Memory and Processes take the UUID of a card or of a MIG instance; an unknown UUID is status.NotFound. A card's
//     numbers include those of its MIG instances.
//  6. Each result is a snapshot; two results may be inconsistent with each other.
//  7. After Close every call returns status.FailedPrecondition; a second Close does nothing.
//  8. Every method may be called from any goroutine at any time.
type Monitor interface {
	System() (System, error)
	Cards() ([]Card, error)
	Memory(uuid string) (MemoryUse, error)
	Processes(uuid string) ([]Process, error)
	Close() error
}

// System describes what all GPUs of the machine share.
type System struct {
	DriverVersion string // "550.54.15"

	// The newest CUDA version that the driver supports: 12.4 is 12, 4. Both are 0 if the driver does not report it.
	CUDAMajor, CUDAMinor int

	// HostPIDs reports whether this process runs in its own PID namespace, as in a container. Process.PID is then the
	// PID on the host, which differs from os.Getpid.
	HostPIDs bool
}

// Card is one physical GPU.
type Card struct {
	Index        int    // the monitor's own order, for messages
	UUID         string // as Device.UUID; "" if it cannot be read
	PCIBusID     string // as Device.PCIBusID
	Name         string // as Device.Name
	ComputeMajor int    // compute capability 9.0 is 9, 0
	ComputeMinor int    // 0 of compute capability 9.0

	// MemoryKind is as Device.MemoryKind. What Memory returns for a Unified card is meaningless, even if it is no
	// error.
	MemoryKind MemoryKind

	MIG MIGMode // whether the card is divided into instances
	// Instances are the card's MIG devices, which CUDA then uses instead of the card. Empty unless MIG is MIGOn.
	Instances []Instance

	Err error // what could not be read, and why; nil if everything was read
}

// MIGMode says whether a card is divided into instances. The zero value means unknown.
type MIGMode int

// The modes.
const (
	MIGUnknown MIGMode = iota
	MIGAbsent          // the card or its driver does not support MIG
	MIGOff
	MIGOn
)

// Instance is one MIG device of a card. Its memory is reserved for it.
type Instance struct {
	UUID              string // "MIG-" and 32 hex digits grouped 8-4-4-4-12; with old drivers "MIG-GPU-.../1/0"
	Name              string // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	GPUInstanceID     int    // the number of the GPU instance on the card
	ComputeInstanceID int    // the number of the compute instance in the GPU instance
}

// MemoryUse is the memory of a card or an instance, as used by all processes. UsedBytes includes memory reserved by the
// driver.
type MemoryUse struct {
	TotalBytes, UsedBytes, FreeBytes uint64 // of all processes together
}

// Process is one process that uses a GPU.
type Process struct {
	PID int // see System.HostPIDs

	// UsedBytes is the device memory that the process uses on this GPU, in all its contexts. It is 0 if the driver does
	// not report it.
	UsedBytes  uint64
	BytesKnown bool // whether UsedBytes is known

	// The MIG instance that it uses; both are -1 on a card without instances.
	GPUInstanceID, ComputeInstanceID int
}
