// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// SimulatedCard is a GPU of a simulated machine.
type SimulatedCard struct {
	Device    gpu.Device // as it is to be reported; Ordinal and LeastPriority are not read
	UsedBytes uint64     // of its memory, by other processes

	// Model is the place in models.Models, from 1: what gpu.Device does not have is the model's. 0 is no model.
	Model   int
	Profile uint // models.Profile's words
}

// SimulatedOptions changes a simulated machine.
type SimulatedOptions struct {
	// OfProcess makes it the machine that other libraries of the process find: CUDA's functions use it in every thread.
	OfProcess bool

	// Version is the CUDA version of the driver, such as 12040; 0 is the simulator's own. It is the same for all
	// machines of a process.
	Version int

	// SharedCards is the path of a file through which several processes use the same simulated cards and their memory;
	// "" keeps the cards of this machine to itself. Only this user may have access to the file. A file of other cards
	// has no effect.
	SharedCards string
}

const (
	chargeUnitBytes = 256
	granuleBytes    = 2 << 20
	mostCardBytes   = 16 << 40
)

func (card SimulatedCard) check(ordinal int) error {
	total := card.Device.TotalBytes
	if total == 0 || total > mostCardBytes || total%chargeUnitBytes != 0 {
		return status.Errorf(status.InvalidArgument, "cannot simulate a GPU %d of %d bytes; its memory is a "+
			"multiple of %d bytes, at most 16TiB",
			ordinal, total, chargeUnitBytes)
	}
	if card.UsedBytes > total {
		return status.Errorf(status.InvalidArgument, "%d bytes cannot be in use on a GPU of %d bytes",
			card.UsedBytes, total)
	}
	return nil
}
