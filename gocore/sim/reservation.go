// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Where reservations are placed: each card at the lowest free place, in steps, so that the same machines get the same addresses in
// every process, and a second machine is placed above the first.
//
// The first zone avoids everything that the kernel places at random on 47-bit and 48-bit machines: it is above position-independent
// executables and their heap (up to 0x5655_5555_5000), below the stack and the shared libraries (from about 0x7eff_0000_0000 down),
// and away from the Go heap and the race detector's shadow memory (both below 0x4000_0000_0000). The second zone is for machines
// with 39-bit addresses, such as some arm64 kernels, and for what does not fit into the first.
var zones = []zone{
	{0x5800_0000_0000, 0x7800_0000_0000},
	{0x0008_0000_0000, 0x0080_0000_0000},
}

type zone struct{ begin, end uint64 }

// stepBytes is the distance between places; the rest of the last step is an unmapped gap behind each reservation.
const stepBytes = 16 << 30

// reserve maps bytes of address space at the lowest free place. On failure it returns the host's error.
func reserve(bytes uint64) (addr uint64, err error) { return reserveIn(zones, bytes, stepBytes) }

// alignedZones are the zones of reservations with an alignment, which are made while the machine works. The first is the top of the
// first zone above, away from the cards.
var alignedZones = []zone{{0x7000_0000_0000, 0x7800_0000_0000}, {0x5800_0000_0000, 0x7000_0000_0000}, zones[1]}

// alignedStepBytes is the minimum distance between places in alignedZones. There is no gap behind them.
const alignedStepBytes = 1 << 30

// reserveAligned does the same at multiples of alignment, a power of two. bytes must be a multiple of alignedStepBytes.
func reserveAligned(bytes, alignment uint64) (addr uint64, err error) {
	return reserveIn(alignedZones, bytes, max(alignment, alignedStepBytes))
}

func reserveIn(zones []zone, bytes, step uint64) (addr uint64, err error) {
	for _, z := range zones {
		for addr = roundUp(z.begin, step); addr >= z.begin && addr < z.end && bytes < z.end-addr; addr += step {
			err = mapReserved(addr, bytes)
			if err == nil {
				return addr, nil
			}
			if !errors.Is(err, unix.EEXIST) {
				break // the host's refusal does not depend on the place within a zone
			}
		}
	}
	if err == nil {
		err = unix.ENOMEM // larger than any zone
	}
	return 0, err
}
