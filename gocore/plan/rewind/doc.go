// SPDX-License-Identifier: Apache-2.0

// Package rewind checks the model of PyTorch's allocator (package caching) against what the real one recorded.
//
// # Overview
//
// A History holds the allocator's last events and its segments at the end, but not the state before the first event.
// Verify computes that state, gives it to the model, and replays the events. Every allocation must get the recorded
// address, and every segment must be taken and released when it was.
//
//	rewind   the end, undone event by event: which blocks and segments there were at the beginning (start.go)
//	sizes    how large the blocks were that a program freed later (start.go)
//	replay   the model beside the record (replay.go), over a device that answers as the recorded one did (device.go)
//	end      the model's blocks against the recorded ones
//
// # What a record does not determine
//
// A record has the requested size of a block, not the size of the block. PyTorch leaves up to 1 MiB at the end of a
// large block unsplit, so the size of a large block that was allocated before the record began and freed later is known
// only within 1 MiB. Usually the record shows it: nothing smaller than 1 MiB can be left between large blocks, and the
// first allocation behind the block begins where it ends. If it does not, and the replay depends on it, that allocation
// counts as undetermined, and the size is corrected.
//
// Newer versions of PyTorch prefer the free block of the older segment. The record does not say which of two segments
// is older if both were there when it began. They are taken to be in the order of addresses until an allocation shows
// otherwise; that allocation counts as undetermined, too. What allocations have shown stays known
// (caching.Allocator.Learn), so at most about as many allocations are undetermined as there were segments at the
// beginning, however long the record is.
//
// Before 2.15 the record does not name the private pool of an allocation. It is that of the segment at its address, if
// the segment is there at the end, and the default pool otherwise.
//
// # Locks
//
// Nothing here has a lock: a Verify call uses only what it creates.
package rewind
