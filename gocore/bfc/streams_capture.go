package bfc

import (
	"gpuconf/gocore/chunks"
	"gpuconf/gocore/status"
)

// A capture's memory. Work that is captured as a graph is done by each launch of it, at any time and in any stream, until nothing of the graph
// is left. So what its blocks had goes to nobody else meanwhile, freed or not. It has an owner of its own, a number like a stream's
// (private): free memory of it is the owner's, in the order of the captured calls, and no wait makes it another's.
//
//	free, owned by others or clean -> live   AllocateOn the owner, with nothing queued and no stream made to wait: the host waits, if it must
//	live -> free, private                    Free
//	private -> owned by the stream           EndCapture: the graph is no more, and only what the stream itself has queued may touch it

// NewCapture gives the number of an owner for what is captured of a stream. A recording tells its allocations by the stream's handle.
func (a *Allocator) NewCapture(of Stream) (Stream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, a.errClosed()
	}
	if a.timeline == nil {
		return 0, status.Errorf(status.Unimplemented, "allocator %s knows one stream only: it has no timeline", a.name)
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
		_ = bins.UnmapBeside() // of a mapping just made: it cannot fail
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

// beSharedLocked makes the mode shared, whatever has been so far, and admits a stream.
func (a *Allocator) beSharedLocked(s Stream) error {
	if err := a.admitLocked(s); err != nil || a.shared {
		return err
	}
	return a.shareLocked()
}

// EndCapture ends an owner: no launch of its graph is left or will come. Its memory is its stream's then, live blocks and free memory alike,
// and blocks of others that were kept for the graph go free.
func (a *Allocator) EndCapture(p Stream) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	if int(p) >= len(a.streams) || a.streams[p].state != private {
		return status.Errorf(status.InvalidArgument, "allocator %s: %d is no capture of it, or has ended", a.name, p)
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

// passOnLocked makes blocks and held chunks of a capture those of its stream, and drops its uses of others'. It walks all chunks.
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

// useOfLocked finds the use of a live or held chunk by a stream.
func (a *Allocator) useOfLocked(i uint32, s Stream) uint32 {
	u := a.tags[i].uses
	for u != chunks.None && a.uses[u].stream != s {
		u = a.uses[u].next
	}
	return u
}

// capturedLocked reports whether a chunk that is free or held is kept for a capture.
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

// capturedBytesLocked is how much is no block and kept for captures.
func (a *Allocator) capturedBytesLocked() (bytes uint64) {
	for s := range a.streams {
		if st := &a.streams[s]; st.state == private {
			bytes += st.freeBytes
			for u := st.awaited.oldest; u != chunks.None; u = a.uses[u].after {
				bytes += a.chunks.Records[a.uses[u].chunk].Bytes
			}
		}
	}
	return bytes
}
