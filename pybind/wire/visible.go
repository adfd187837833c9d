// SPDX-License-Identifier: Apache-2.0

package wire

// VisibleDevice is one GPU that this process sees, with all its names.
type VisibleDevice struct {
	CUDAOrdinal int `py:"cuda_ordinal"` // its number in CUDA and PyTorch, after CUDA_VISIBLE_DEVICES
	// Its name in list_physical_devices(); None if its compute capability is too low to be listed.
	PhysicalDevice *string `py:"physical_device"`
	Name           string  `py:"name"`       // the product
	UUID           string  `py:"uuid"`       // "GPU-...", or "MIG-..." for a MIG instance; valid in CUDA_VISIBLE_DEVICES
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
