// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// slotView is a live slot: its lock is held.
type slotView struct {
	file *slotFile
	slot int
	record
	stopped bool // a waiting claim that has not looked for a time; it is passed
}

// view is what the ledger says at one time.
type view struct {
	slots    []slotView // live ones
	free     []freeSlot // of this user, that may be taken
	when     uint64     // it is read
	still    bool       // it is read under the grant lock, so claims do not change meanwhile
	problems []string   // what is wrong with other users' files, which are passed over
	retries  int        // of what other users' files say
}

type freeSlot struct {
	file *slotFile
	slot int
	used bool // its directory entry does not say that it is free
	sure bool // it certainly is free; else its process may live
}

// lookAll reads all live slots. Under the grant lock the result is exact; without it, slots may come and go while they
// are read.
func (l *Ledger) lookAll() (*view, error) {
	v := &view{when: now()}
	return v, l.eachFile(v, func(f *slotFile, entries []entry) error {
		for slot, e := range entries {
			if e.isFree() {
				continue
			}
			if lives, err := l.isLocked(f, slot); err != nil {
				return err
			} else if lives {
				if err := l.passOver(v, f.stat.Uid, l.readSlot(v, f, slot, e)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// readSlot reads a live slot. What a later version may have written there, of a kind that takes no memory, is passed
// over.
func (l *Ledger) readSlot(v *view, f *slotFile, slot int, e entry) error {
	e, err := l.entryAgain(v, f, slot, e)
	if err != nil || e.kind != kindClaim && e.kind != kindProcess && e.kind != kindParked {
		return err
	}
	r, err := l.readRecord(v, f, slot)
	if err != nil {
		return err
	}
	r.entry = e
	v.slots = append(v.slots, slotView{file: f, slot: slot, record: r, stopped: e.isStopped(v.when)})
	return nil
}

// look reads what decisions need: the live claims, and slots that may be taken. It reads only the records that have
// changed since the last look, and probes no locks but those of claims. locked: the caller holds the grant lock.
func (l *Ledger) look(locked bool) (*view, error) {
	v := &view{when: now(), still: locked}
	return v, l.eachFile(v, func(f *slotFile, entries []entry) error {
		for slot, e := range entries {
			lives, probed, err := false, e.kind == kindClaim || e.damaged, error(nil)
			if probed {
				if lives, err = l.isLocked(f, slot); err != nil {
					return err
				}
			}
			switch {
			case lives:
				if err := l.passOver(v, f.stat.Uid, l.lookAt(v, f, slot, e)); err != nil {
					return err
				}
			case f.stat.Uid == l.uid:
				v.free = append(v.free, freeSlot{file: f, slot: slot, used: !e.isFree(), sure: probed || e.isFree()})
			}
		}
		return nil
	})
}

func (l *Ledger) lookAt(v *view, f *slotFile, slot int, e entry) error {
	e, err := l.entryAgain(v, f, slot, e)
	if err != nil || e.kind != kindClaim {
		return err
	}
	k := &f.known[slot]
	if !k.isSame(e) {
		k.entry = entry{}
		r, err := l.readRecord(v, f, slot)
		if err != nil {
			return err
		}
		k.record = r
	}
	k.entry, k.record.entry = e, e
	v.slots = append(v.slots, slotView{file: f, slot: slot, record: k.record, stopped: e.isStopped(v.when)})
	return nil
}

// eachFile calls a function for each slot file, with its directory.
func (l *Ledger) eachFile(v *view, do func(f *slotFile, entries []entry) error) error {
	files, err := l.slotFiles(v)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := readAt(f.fd, l.directory[:], directoryAt); err != nil {
			if err = l.passOver(v, f.stat.Uid, l.problem(err, f.name, "cannot read")); err != nil {
				return err
			}
			continue
		}
		for slot := range f.rows {
			row, before := l.directory[entryBytes*slot:][:entryBytes], f.rows[slot][:]
			if !bytes.Equal(row, before) {
				copy(before, row)
				f.entries[slot] = decodeEntry(row, slot)
			}
		}
		if err := do(f, f.entries[:]); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) isLocked(f *slotFile, slot int) (bool, error) {
	lives, err := isLocked(f.fd, slotAt(slot))
	if err != nil {
		return false, l.problem(err, f.name, "cannot read the locks of")
	}
	return lives, nil
}

var errVanished = errors.New("the slot is free again")

// mostAttempts is how often a record is read that is being written, 100 microseconds apart; mostRetries, how often all
// those of other users that may be passed over are read again for one view: no user can make others spend their time.
const (
	mostAttempts = 100
	mostRetries  = 20
)

// again waits for the n-th next attempt to read a slot that is being written, and reports whether there is one.
func (l *Ledger) again(v *view, f *slotFile, n int) bool {
	if l.mayPass(f.stat.Uid) {
		v.retries++
		n += max(0, v.retries-mostRetries) * mostAttempts
	}
	if n+1 >= mostAttempts {
		return false
	}
	pause(int64(100 * time.Microsecond))
	return true
}

// usualBytes covers most records, so that one read suffices.
const usualBytes = 1024

// readRecord reads a live slot's record. Its writer may be at work if the caller does not hold the grant lock; then it
// is read again.
func (l *Ledger) readRecord(v *view, f *slotFile, slot int) (r record, err error) {
	data, why := make([]byte, usualBytes, recordBytes), ""
	for n := 0; n == 0 || !v.still && l.again(v, f, n-1); n++ {
		err = readAt(f.fd, data, slotAt(slot))
		if length := order.Uint32(data[4:]); err == nil && length > uint32(len(data)) && length <= recordBytes {
			data = data[:recordBytes]
			err = readAt(f.fd, data, slotAt(slot))
		}
		if err != nil {
			return r, l.problem(err, f.name, "cannot read")
		}
		if r, why = decode(data); why == "" {
			return r, nil
		}
		if lives, _ := l.isLive(f, slot); !lives {
			return r, errVanished
		}
	}
	return r, damaged(l.folder+"/"+f.name, fmt.Sprintf("%s (slot %d, of user %d)", why, slot, f.stat.Uid))
}

// entryAgain reads the entry of a live slot again if it was read while it was written.
func (l *Ledger) entryAgain(v *view, f *slotFile, slot int, e entry) (entry, error) {
	for n := 0; e.damaged; n++ {
		var err error
		if e, err = readEntry(f, slot); err != nil {
			return entry{}, l.problem(err, f.name, "cannot read")
		}
		if lives, _ := isLocked(f.fd, slotAt(slot)); !lives {
			return entry{}, nil
		}
		if e.damaged && !l.again(v, f, n) {
			return entry{},
				damaged(l.folder+"/"+f.name,
					fmt.Sprintf("the checksum of a directory entry is wrong (slot %d, of user %d)", slot, f.stat.Uid))
		}
	}
	return e, nil
}

func readEntry(f *slotFile, slot int) (entry, error) {
	var b [entryBytes]byte
	err := readAt(f.fd, b[:], entryAt(slot))
	return decodeEntry(b[:], slot), err
}

func (l *Ledger) isLive(f *slotFile, slot int) (bool, error) {
	if e, err := readEntry(f, slot); err != nil || e.isFree() {
		return false, err
	}
	return isLocked(f.fd, slotAt(slot))
}

// claims returns the live claims that are not parked in the order of their tickets.
func (v *view) claims() (claims []*slotView) {
	for i := range v.slots {
		if v.slots[i].kind == kindClaim && !v.slots[i].isParked() {
			claims = append(claims, &v.slots[i])
		}
	}
	slices.SortStableFunc(claims, func(a, b *slotView) int {
		if a.ticket != b.ticket {
			return cmp.Compare(a.ticket, b.ticket)
		}
		return slices.Compare(a.id[:], b.id[:])
	})
	return claims
}

// nextTicket is higher than all live ones. There is no counter to keep: if no request lives, none can be overtaken.
func (v *view) nextTicket() uint64 {
	return v.next(func(s *slotView) uint64 { return s.ticket })
}

func (v *view) nextGrant() uint64 { return v.next(func(s *slotView) uint64 { return s.granted }) }

// next returns the number after the highest one. Numbers count up from 1, and a claim takes longer than a nanosecond:
// no number is higher than the nanoseconds since boot, unless it is forged. A forged one is not counted on from, so
// numbers never reach their end.
func (v *view) next(number func(*slotView) uint64) (highest uint64) {
	highestPossible := now()
	for i := range v.slots {
		if n := number(&v.slots[i]); n <= highestPossible {
			highest = max(highest, n)
		}
	}
	return highest + 1
}

// holding is a slot that this process holds: an open file of its own, with the lock of the slot.
type holding struct {
	file *slotFile // not its descriptor, which the ledger may close
	fd   int
	slot int
}

// underLock runs a change under the grant lock, with what it looks at there.
func (l *Ledger) underLock(look func() (*view, error), change func(v *view) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	locked, err := l.lock(l.Patience)
	if err != nil {
		return err
	}
	defer locked.unlock()
	v, err := look()
	if err != nil {
		return err
	}
	return change(v)
}

// enter takes a slot for this process and fills it, under the grant lock.
func (l *Ledger) enter(fill func(v *view, held holding) error) error {
	look := func() (*view, error) { return l.look(true) }
	return l.underLock(look, func(v *view) error {
		held, err := l.take(v)
		if err != nil {
			return err
		}
		if err := fill(v, held); err != nil {
			l.drop(held)
			return err
		}
		return nil
	})
}

// take takes a free slot of this user's files, or of a new file. The caller holds the grant lock.
func (l *Ledger) take(v *view) (holding, error) {
	if !l.Shared && l.uid != l.owner {
		return holding{}, status.Errorf(status.FailedPrecondition, "%s is the ledger of user %d alone. Make one for "+
			"several users with: gpuconf ledger init --shared FOLDER",
			l.folder, l.owner)
	}
	for _, sure := range []bool{true, false} {
		for _, free := range v.free {
			if free.sure != sure {
				continue
			}
			if h, ok, err := l.tryTake(free); ok || err != nil {
				return h, err
			}
		}
	}
	if err := l.makeRoom(); err != nil {
		return holding{}, err
	}
	return l.createFile()
}

// tryTake takes a slot, unless it is locked: by its process, by a vandal, or by a child that inherited a claim which
// was released.
func (l *Ledger) tryTake(free freeSlot) (h holding, ok bool, err error) {
	if !free.sure {
		if lives, err := l.isLocked(free.file, free.slot); lives || err != nil {
			return h, false, err
		}
	}
	fd, err := openAt(l.dir, free.file.name, unix.O_RDWR, 0)
	if err != nil {
		return h, false, l.problem(err, free.file.name, "cannot open")
	}
	if err = l.isSame(fd, free.file); err == nil && free.used { // before the lock makes what it says alive again
		err = l.writeEntry(holding{free.file, fd, free.slot}, entry{})
	}
	if err == nil {
		if ok, err = tryLock(fd, slotAt(free.slot)); err != nil {
			err = l.problem(err, free.file.name, "cannot lock a slot of")
		}
	}
	if !ok || err != nil {
		closeFile(fd)
		return h, false, err
	}
	return holding{free.file, fd, free.slot}, true, nil
}

// isSame checks that an open file is the one that was checked, not another one that has its name now.
func (l *Ledger) isSame(fd int, f *slotFile) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return l.problem(err, f.name, "cannot read")
	}
	if stat.Ino != f.stat.Ino || stat.Dev != f.stat.Dev {
		return damaged(l.folder+"/"+f.name, "it was replaced while it was in use")
	}
	return nil
}

// write stores a record in a slot that this process holds.
func (l *Ledger) write(h holding, r *record) error {
	if err := writeAt(h.fd, r.encode(), slotAt(h.slot)); err != nil {
		return l.problem(err, h.file.name, "cannot write")
	}
	r.entry = entryOf(r)
	return l.writeEntry(h, r.entry)
}

func (l *Ledger) writeEntry(h holding, e entry) error {
	if err := writeAt(h.fd, e.encode(h.slot), entryAt(h.slot)); err != nil {
		return l.problem(err, h.file.name, "cannot write")
	}
	return nil
}

// drop frees a slot that this process holds, also if a child has a copy of the descriptor. An error loses nothing: the
// lock ends with the last descriptor.
func (l *Ledger) drop(h holding) {
	_ = l.writeEntry(h, entry{})
	closeFile(h.fd)
}
