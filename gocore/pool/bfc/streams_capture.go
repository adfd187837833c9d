// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
)

// Memory of captures (invariant 18). Work captured as a graph runs at each launch of the graph, at any time and in any
// stream, until nothing of the graph is left. No other stream may get the memory of its blocks meanwhile, whether they
// are freed or not. A capture therefore has its own owner, with a number like a stream's (state private). It reuses its
// own free memory in the order of the captured calls, and no wait makes that memory available to another stream.
//
//	free, clean or owned by others -> live   AllocateOn the owner; nothing is queued and no stream is made
//	                                         to wait: if necessary, the host waits
//	live -> free, private                    Free
//	private -> owned by the stream           EndCapture: the graph is gone, so only work queued in the stream itself
//	                                         may touch the memory

// NewCapture returns the number of an owner for the memory of a capture of stream of. Recordings label its
// allocations with that stream's handle.
func (a *Allocator) NewCapture(of Stream) (Stream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, a.errClosed()
	}
	if a.timeline == nil {
		return 0, status.Errorf(status.Unimplemented, "allocator %s supports only one stream: it has no timeline",
			a.name)
	}
	if err := a.checkStreamLocked(of); err != nil {
		return 0, err
	}
	if err := a.beSharedLocked(of); err != nil {
		return 0, err
	}
	bins, err := a.bins.Beside()
	if err != nil {
		return 0, err
	}
	p, err := a.takeNumberLocked(a.streams[of].handle)
	if err != nil {
		_ = bins.UnmapBeside() // unmapping a new mapping cannot fail
		return 0, err
	}
	st := &a.streams[p]
	if st.bins == nil {
		st.bins = bins
	} else {
		_ = bins.UnmapBeside()
	}
	st.state, st.of = private, of
	a.streams[of].refs++
	return p, nil
}

// beSharedLocked switches to shared mode if necessary, and admits stream s.
func (a *Allocator) beSharedLocked(s Stream) error {
	if err := a.admitLocked(s); err != nil || a.shared {
		return err
	}
	return a.shareLocked()
}

// EndCapture ends an owner: its graph is gone and will not be launched again. Its live blocks and free memory then
// belong to its stream, and blocks of other owners that were held for the graph become free.
func (a *Allocator) EndCapture(p Stream) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	if int(p) >= len(a.streams) || a.streams[p].state != private {
		return status.Errorf(status.InvalidArgument, "allocator %s: capture %d is unknown or has ended", a.name, p)
	}
	of := a.streams[p].of
	if err := a.haveBinsLocked(of); err != nil {
		return err
	}
	a.passOnLocked(p, of)
	for a.streams[p].owned.oldest != chunks.None {
		i := a.streams[p].owned.oldest
		a.unlistLocked(i)
		a.ownLocked(i, of, a.streams[of].nextMark())
	}
	a.streams[p].state = ended
	a.streams[of].refs--
	return nil
}

// passOnLocked moves a capture's live and held chunks to its stream, and drops its uses of other chunks (invariants
// 14 and 16). It walks all chunks.
func (a *Allocator) passOnLocked(p, of Stream) {
	for at := range a.regions {
		r := a.regions[at]
		for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
			c := &a.chunks.Records[i]
			if c.Free() {
				continue
			}
			if t := &a.tags[i]; t.stream == p {
				t.stream, t.mark = of, a.streams[of].nextMark()
				a.streams[p].refs--
				a.streams[of].refs++
			}
			if u := a.useOfLocked(i, p); u == chunks.None {
				continue
			} else if !c.Held() {
				a.forgetUseLocked(u)
			} else if a.dropUseLocked(u); a.tags[i].uses == chunks.None {
				i = a.letGoLocked(i)
			}
		}
	}
}

// useOfLocked returns the use of a live or held chunk by a stream, or None.
func (a *Allocator) useOfLocked(i uint32, s Stream) uint32 {
	u := a.tags[i].uses
	for u != chunks.None && a.uses[u].stream != s {
		u = a.uses[u].next
	}
	return u
}

// capturedLocked reports whether a free or held chunk is kept for a capture.
func (a *Allocator) capturedLocked(i uint32) bool {
	if !a.shared || a.tags[i].stream == clean {
		return false
	}
	if a.streams[a.tags[i].stream].state == private {
		return true
	}
	for u := a.heldUsesLocked(i); u != chunks.None; u = a.uses[u].next {
		if a.streams[a.uses[u].stream].state == private {
			return true
		}
	}
	return false
}

// capturedBytesLocked returns how many bytes are in no block and kept for captures.
func (a *Allocator) capturedBytesLocked() (bytes uint64) {
	for s := range a.streams {
		if st := &a.streams[s]; st.state == private {
			bytes += st.freeBytes
			for u := st.awaited.oldest; u != chunks.None; u = a.uses[u].after {
				bytes += a.chunks.Records[a.uses[u].chunk].Bytes()
			}
		}
	}
	return bytes
}
