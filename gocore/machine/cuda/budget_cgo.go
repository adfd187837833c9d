// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "library.h"
import "C"

import "gpuconf/gocore/machine/gpu"

var _ gpu.Budgeted = (*driver)(nil)

// TellIdle says to gpuconf's guard, if the library is loaded through it, which C function returns the bytes that this
// process's pools on a device, an int, have in no block: they count as free in what programs ask. MemGetInfo does not
// count them.
func TellIdle(function uintptr) { C.cuda_guard_idle(C.uintptr_t(function)) }

// Budget returns the job's budget on a device, as gpuconf's guard counts it (gocore/lease/guard). A budget may name a
// MIG instance or its card.
func (d *driver) Budget(ordinal int) (gpu.Budget, bool) {
	if ordinal < 0 || ordinal >= len(d.devices) {
		return gpu.Budget{}, false
	}
	var c C.struct_card_figures
	g := d.devices[ordinal]
	if C.cuda_guard_figures(&g.instance, &c) == 0 && C.cuda_guard_figures(&g.card, &c) == 0 {
		return gpu.Budget{}, false
	}
	return gpu.Budget{
		LimitBytes: uint64(c.limit), PoolBytes: uint64(c.pools), OutsideBytes: uint64(c.outside),
		FreeBytes: uint64(c.left),
	}, true
}
