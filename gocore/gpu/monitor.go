package gpu

// Monitor tells what the driver knows about the machine's GPUs before and beside CUDA.
//
// # What gpuconf relies on
//
//  1. No call creates a CUDA context or takes device memory.
//  2. Cards lists every GPU that the process may open, whatever CUDA_VISIBLE_DEVICES says, in an order that is not
//     CUDA's and may differ after a reboot. A card is matched with a Device by UUID, else by PCI bus id, never by
//     index.
//  3. A card that can't be read doesn't hide the others: it is listed with what is known, and Card.Err says the rest.
//  4. An answer is one of three: a value, with a nil error; an error of kind status.Unimplemented, where this GPU or
//     its driver doesn't tell such a thing; any other error. The second is shown as unknown, never as 0.
//  5. Memory and Processes take the UUID of a card or of a MIG instance; an unknown UUID is status.NotFound. A card's
//     numbers include those of its MIG instances.
//  6. Numbers are of the moment: no two answers belong together.
//  7. After Close every call gives status.FailedPrecondition; a second Close does nothing.
//  8. Every method may be called from any goroutine at any time.
type Monitor interface {
	System() (System, error)
	Cards() ([]Card, error)
	Memory(uuid string) (MemoryUse, error)
	Processes(uuid string) ([]Process, error)
	Close() error
}

// System is what holds for all GPUs of the machine.
type System struct {
	DriverVersion string // "550.54.15"

	// The newest CUDA version that the driver runs: 12.4 is 12, 4. Both 0 where the driver doesn't tell.
	CUDAMajor, CUDAMinor int

	// HostPIDs is true where this process lives in a PID namespace of its own, as in a container: a Process.PID
	// is then the host's number, and os.Getpid's is another.
	HostPIDs bool
}

// Card is one physical GPU.
type Card struct {
	Index        int    // the monitor's own order, for messages
	UUID         string // as Device.UUID; "" where it can't be read
	PCIBusID     string // as Device.PCIBusID
	Name         string
	ComputeMajor int
	ComputeMinor int

	MIG MIGMode
	// Instances are the card's MIG devices; CUDA then uses them and not the card. Never any unless MIG is MIGOn.
	Instances []Instance

	Err error // what could not be read, and why; nil when everything was
}

// MIGMode is whether a card is divided into instances. The zero value is not knowing.
type MIGMode int

// The modes.
const (
	MIGUnknown MIGMode = iota
	MIGAbsent          // the card, or its driver, has no MIG
	MIGOff
	MIGOn
)

// Instance is one MIG device of a card. It has memory of its own, which no other instance can take.
type Instance struct {
	UUID              string // "MIG-" and 32 hex digits grouped 8-4-4-4-12, or of old drivers "MIG-GPU-.../1/0"
	Name              string // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	GPUInstanceID     int
	ComputeInstanceID int
}

// MemoryUse is a card's or an instance's memory, as used by everybody. Used includes what the driver keeps for itself.
type MemoryUse struct {
	TotalBytes, UsedBytes, FreeBytes uint64
}

// Process is one process that uses a GPU.
type Process struct {
	PID int // see System.HostPIDs

	// UsedBytes is the device memory that the process holds on this GPU, by all its contexts; BytesKnown is false
	// where the driver doesn't tell.
	UsedBytes  uint64
	BytesKnown bool

	// Which MIG instance it uses; both -1 on a card that has none.
	GPUInstanceID, ComputeInstanceID int
}
