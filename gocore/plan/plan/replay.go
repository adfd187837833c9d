// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"errors"
)

// Failure is the first allocation that found no memory. Sizes are bytes.
type Failure struct {
	// Event is its number in the trace, from 1. 0: the block was live before the trace began.
	Event       int    `json:"event"`
	Micros      int64  `json:"-"`                        // its time, as trace.Event.Micros has it
	Requested   uint64 `json:"requested"`                // the size of the request
	Cause       string `json:"cause"`                    // why no memory was found, as bfc.Cause names it
	InUse       uint64 `json:"bytes_in_use"`             // the sizes of live blocks
	Reserved    uint64 `json:"bytes_reserved"`           // what the pool has taken from the device
	LargestFree uint64 `json:"largest_free_block_bytes"` // the largest free block
}

// Measure describes a replay that ran to its end. Sizes are bytes.
type Measure struct {
	Limit        uint64 `json:"bytes_limit"`         // the limit of the replay
	PeakInUse    uint64 `json:"peak_bytes_in_use"`   // the most in use, with the sizes of the pool's blocks
	PeakReserved uint64 `json:"peak_bytes_reserved"` // the most that was taken from the device
	// Fragmentation is the fraction of the pool's free memory outside its largest free block when PeakInUse was
	// reached. It is 0 if nothing was free.
	Fragmentation float64 `json:"fragmentation"`

	Timeline []Point `json:"timeline"` // consecutive stretches that cover the replay
}

// Point is a stretch of a replay. Sizes are the maximum in it.
type Point struct {
	Micros   int64  `json:"micros"`         // at its end, since the first event of the GPU
	InUse    uint64 `json:"bytes_in_use"`   // the sizes of live blocks
	Reserved uint64 `json:"bytes_reserved"` // what the pool has taken from the device
}

// stepsBetween is how many events are processed between two checks of the context.
const stepsBetween = 1 << 10

// mostPoints is the maximum number of points of a timeline.
const mostPoints = 400

// outcome is how a replay ended. measure is nil if it failed, and failure if it did not.
type outcome struct {
	measure   *Measure
	failure   *Failure
	done      int    // ops before the failure
	low, high uint64 // the limits with the same outcome
	guess     uint64 // what might be the least limit; 0: nothing is known
}

// replay runs a workload through a new pool.
func (w *workload) replay(ctx context.Context, v variant, limitBytes uint64, card Card) (result outcome, err error) {
	p, err := newPool(v, limitBytes, card, w)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	r := replayer{pool: p, measured: &Measure{Limit: limitBytes},
		perPoint: max((len(w.ops)+mostPoints-1)/mostPoints, 1)}
	for i, o := range w.ops {
		if i%stepsBetween == 0 && ctx.Err() != nil {
			return result, ctx.Err()
		}
		if err := r.step(o); err != nil {
			if result.failure = p.failure(err, o); result.failure == nil {
				return result, err
			}
			result.failure.Event, result.failure.Micros, result.failure.Requested = int(o.event), w.micros[i], o.bytes
			result.done = i
			result.low, result.high = p.alike()
			result.guess = p.guess(o.bytes)
			return result, nil
		}
		r.note(max(w.micros[i]-w.began, 0), i == len(w.ops)-1)
	}
	r.measured.PeakReserved = p.peakReserved()
	result.measure = r.measured
	result.low, result.high = p.alike()
	result.guess = p.guess(0)
	return result, nil
}

type replayer struct {
	pool     pool
	measured *Measure
	perPoint int
	point    Point
	ops      int // in point
}

func (r *replayer) step(o op) error {
	if o.bytes == 0 {
		return r.pool.free(o)
	}
	return r.pool.allocate(o)
}

// note measures the pool after an op.
func (r *replayer) note(micros int64, last bool) {
	m, now := r.measured, r.pool.usage()
	if now.inUse > m.PeakInUse {
		m.PeakInUse, m.Fragmentation = now.inUse, 0
		if largest, reserved := r.pool.largestFree(); reserved > now.inUse {
			m.Fragmentation = 1 - float64(largest)/float64(reserved-now.inUse)
		}
	}
	r.point.Micros = micros
	r.point.InUse = max(r.point.InUse, now.inUse)
	r.point.Reserved = max(r.point.Reserved, now.reserved)
	if r.ops++; r.ops == r.perPoint || last {
		m.Timeline = append(m.Timeline, r.point)
		r.point, r.ops = Point{}, 0
	}
}
