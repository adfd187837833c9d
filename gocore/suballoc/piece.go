package suballoc

import (
	"errors"

	"gpuconf/gocore/status"
)

// largePiece is how many granules are created at once where that many are wanted. One call for 32 MiB costs little more than one for
// 2 MiB; but a piece is mapped and given back only as a whole.
const largePiece = 16

// piece is one mapped handle, in the slot of its first granule. Its other slots are continuations; a slot without memory is zero.
type piece struct {
	handle   uint64
	granules uint32
	state    pieceState
}

type pieceState uint32

const (
	empty        pieceState = iota
	owned                   // the caller has it
	parked                  // mapped, but nobody's: the device refused to unmap it
	continuation            // of the piece below
)

// pieceLocked is how many granules to create at once for the empty slots from at on.
func (v *Virtual) pieceLocked(at, end int) (granules uint32) {
	if end-at < largePiece {
		return 1
	}
	for _, s := range v.slots[at : at+largePiece] {
		if s.state != empty {
			return 1
		}
	}
	return largePiece
}

// mapPieceLocked creates a piece and maps it: empty -> parked. If that fails, its bytes are off the books, or a stray's.
func (v *Virtual) mapPieceLocked(at int, granules uint32) error {
	bytes := uint64(granules) * v.granule
	handle, err := v.upstream.MemCreate(bytes)
	if err != nil {
		v.heldBytes -= bytes
		return err
	}
	if err := v.upstream.MemMap(v.addrOf(at), bytes, handle); err != nil {
		return errors.Join(err, v.releaseHandleLocked(handle, bytes))
	}
	v.slots[at] = piece{handle: handle, granules: granules, state: parked}
	for i := at + 1; i < at+int(granules); i++ {
		v.slots[i].state = continuation
	}
	return nil
}

// unmapPieceLocked takes a piece away: parked -> empty. If the device refuses to unmap it, it stays parked.
func (v *Virtual) unmapPieceLocked(at int) error {
	bytes := uint64(v.slots[at].granules) * v.granule
	if err := v.upstream.MemUnmap(v.addrOf(at), bytes); err != nil {
		return status.Errorf(status.Internal, "the device did not unmap %d bytes at %#x: %w", bytes, v.addrOf(at), err)
	}
	return v.vacateLocked(at)
}

// vacateLocked gives back the handle of a piece that is not mapped any more.
func (v *Virtual) vacateLocked(at int) error {
	p := v.slots[at]
	clear(v.slots[at : at+int(p.granules)])
	return v.releaseHandleLocked(p.handle, uint64(p.granules)*v.granule)
}

// releaseHandleLocked gives a handle back. If the device refuses, it is a stray, whose bytes stay on the books.
func (v *Virtual) releaseHandleLocked(handle, bytes uint64) error {
	if err := v.upstream.MemRelease(handle); err != nil {
		v.strays = append(v.strays, stray{handle: handle, bytes: bytes})
		return status.Errorf(status.Internal, "the device did not take back %d bytes: %w", bytes, err)
	}
	v.heldBytes -= bytes
	return nil
}
