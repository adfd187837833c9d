// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"crypto/sha256"
	"fmt"

	"gpuconf/gocore/gpu"
)

// uuid returns the same UUID in every process for the same card in the same slot. It differs between slots.
func (c Card) uuid(slot int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "gpuconf simulated GPU %d %s %d", slot, c.Model.Name, c.MemoryBytes))
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// pciBusID assigns the slots to the buses of one PCI domain, in ascending order; there is room for 64.
func pciBusID(slot int) string {
	const firstBus, busStep = 0x17, 3
	return fmt.Sprintf("0000:%02x:00.0", firstBus+busStep*slot)
}

// describe returns the card of a slot as the driver reports it.
func (c Card) describe(slot, ordinal int) gpu.Device {
	return gpu.Device{
		Ordinal:          ordinal,
		UUID:             c.uuid(slot),
		PCIBusID:         pciBusID(slot),
		Name:             c.Model.Product,
		ComputeMajor:     c.Model.ComputeMajor,
		ComputeMinor:     c.Model.ComputeMinor,
		Multiprocessors:  c.Model.Multiprocessors,
		TotalBytes:       c.MemoryBytes,
		MemoryKind:       c.Model.MemoryKind(),
		LeastPriority:    0,
		GreatestPriority: c.Model.GreatestPriority,
	}
}
