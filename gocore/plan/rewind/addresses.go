// SPDX-License-Identifier: Apache-2.0

package rewind

import "slices"

// mostInRun bounds the entries that an insertion moves.
const mostInRun = 512

// addresses is a sorted set in runs of at most mostInRun, none of them empty.
type addresses struct{ runs [][]uint64 }

// upTo returns the place of the largest address that is not above a limit; ok is false if there is none.
func (a *addresses) upTo(limit uint64) (run, i int, ok bool) {
	run, exact := slices.BinarySearchFunc(a.runs, limit, func(r []uint64, limit uint64) int {
		if r[0] <= limit {
			return -1
		}
		return 1
	})
	if run--; exact || run < 0 {
		return 0, 0, false
	}
	i, exact = slices.BinarySearch(a.runs[run], limit)
	if !exact {
		i--
	}
	return run, i, true
}

func (a *addresses) insert(addr uint64) {
	run, i, ok := a.upTo(addr)
	switch {
	case len(a.runs) == 0:
		a.runs = append(a.runs, []uint64{addr})
		return
	case ok:
		i++
	}
	a.runs[run] = slices.Insert(a.runs[run], i, addr)
	if full := a.runs[run]; len(full) == mostInRun {
		a.runs[run] = full[:mostInRun/2]
		a.runs = slices.Insert(a.runs, run+1, slices.Clone(full[mostInRun/2:]))
	}
}

// remove removes an address that is in the set.
func (a *addresses) remove(addr uint64) {
	run, i, _ := a.upTo(addr)
	if a.runs[run] = slices.Delete(a.runs[run], i, i+1); len(a.runs[run]) == 0 {
		a.runs = slices.Delete(a.runs, run, run+1)
	}
}
