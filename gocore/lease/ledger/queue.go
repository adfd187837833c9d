// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The order of grants, decided on plain numbers.
//
// Requests are served in the order of their tickets. One that does not fit holds the cards on which least is missing,
// as many as it needs, and a younger one gets only what is left then (invariants 5 and 6). One that fits, but has not
// taken its cards yet, holds those, and the next one of its class waits for it.

// decide returns for each waiting request, in the order of tickets, the indices of the cards that it gets now, in the
// order of its cards; nil if it must wait. leased is what live leases take of each card.
func decide(leased map[string]uint64, waiting []*record) (choices [][]int) {
	charged := map[string]uint64{}
	for uuid, bytes := range leased {
		charged[uuid] = bytes
	}
	for n, r := range waiting {
		chosen, fits := choose(charged, r)
		for _, i := range chosen {
			charged[r.cards[i].UUID] = min(charged[r.cards[i].UUID]+r.cards[i].Charge, mostBytes)
		}
		if !fits || slices.ContainsFunc(waiting[:n], r.isSameClass) {
			chosen = nil
		}
		slices.Sort(chosen)
		choices = append(choices, chosen)
	}
	return choices
}

// Wanted is what a request waits for.
type Wanted struct {
	Cards  []Card // the candidates
	Count  int    // how many of them it needs
	Policy Policy // which of those with room it prefers
}

// Decide returns for each waiting request, in the order of tickets, the indices of the cards that it would get, nil if
// it had to wait. leased is what leases would take of each card.
func Decide(leased map[string]uint64, waiting []Wanted) (choices [][]int) {
	var records []*record
	for _, w := range waiting {
		records = append(records, &record{cards: w.Cards, count: uint32(w.Count), policy: w.Policy})
	}
	return decide(leased, records)
}

// choose returns the cards that a request takes if it fits, else those that it holds.
func choose(held map[string]uint64, r *record) (order []int, fits bool) {
	room := func(i int) int64 { // that would be left; negative: what is missing
		c := &r.cards[i]
		return int64(c.Budget) - int64(held[c.UUID]) - int64(c.Charge)
	}
	fitting := 0
	for i := range r.cards {
		order = append(order, i)
		if room(i) >= 0 {
			fitting++
		}
	}
	fits = fitting >= int(r.count)
	slices.SortStableFunc(order, func(a, b int) int {
		ra, rb := room(a), room(b)
		if fits && r.policy == Pack && ra >= 0 && rb >= 0 {
			return cmp.Compare(ra, rb)
		}
		return cmp.Compare(rb, ra)
	})
	return order[:r.count], fits
}

// leases sums what the granted claims take of each card, and returns the waiting ones that are not stopped.
func leases(claims []*slotView) (leased map[string]uint64, waiting []*record) {
	leased = map[string]uint64{}
	for _, s := range claims {
		if s.state == stateWaiting && !s.stopped && !s.newer {
			waiting = append(waiting, &s.record)
		}
		for _, c := range s.cards {
			if c.Leased {
				leased[c.UUID] = min(leased[c.UUID]+c.Charge, mostBytes)
			}
		}
	}
	return leased, waiting
}

// isSameClass reports whether two requests are for the same bytes of the same cards.
func (r *record) isSameClass(other *record) bool {
	if r.count != other.count || len(r.cards) != len(other.cards) {
		return false
	}
	for i := range r.cards {
		isSame := func(c Card) bool { return c.UUID == r.cards[i].UUID && c.Charge == r.cards[i].Charge }
		if !isSame(other.cards[i]) && !slices.ContainsFunc(other.cards, isSame) {
			return false
		}
	}
	return true
}

// Whose turn it is.

// at returns the live slot that this process holds, or nil. It goes by the place: a forged claim may have the same ID.
func (v *view) at(held holding) *slotView {
	for i := range v.slots {
		if s := &v.slots[i]; s.slot == held.slot && s.file.stat.Ino == held.file.stat.Ino {
			return s
		}
	}
	return nil
}

// put puts a claim's record into the view, in place of what its slot said.
func (v *view) put(held holding, r *record) {
	if s := v.at(held); s != nil {
		s.record, s.stopped = *r, false
		return
	}
	v.slots = append(v.slots, slotView{file: held.file, slot: held.slot, record: *r})
}

// turnOf returns the cards that a waiting claim gets now, nil if it must wait, and how many wait before it.
func (v *view) turnOf(held holding) (taken []int, ahead int) {
	leased, waiting := leases(v.claims())
	own := v.at(held)
	for i, taken := range decide(leased, waiting) {
		if own != nil && waiting[i] == &own.record {
			return taken, i
		}
	}
	return nil, len(waiting)
}

// grant grants a waiting claim of the view its cards, if it is its turn. The caller holds the grant lock, and writes
// the record then.
func (v *view) grant(charges holding, r *record) (granted bool, ahead int) {
	v.put(charges, r)
	taken, ahead := v.turnOf(charges)
	if taken == nil {
		return false, ahead
	}
	for _, card := range taken {
		r.cards[card].Leased = true
	}
	r.state, r.since, r.granted = stateGranted, now(), v.nextGrant()
	v.put(charges, r)
	return true, ahead
}

// wake wakes the waiting claims whose turn it is, except one.
func (l *Ledger) wake(v *view, except ID) {
	leased, waiting := leases(v.claims())
	for i, taken := range decide(leased, waiting) {
		if taken != nil && waiting[i].id != except {
			l.bell.ring(waiting[i].word)
		}
	}
}

// wakeNext wakes the waiting claims whose turn it is after a release. If the ledger cannot be read, they look by
// themselves.
func (l *Ledger) wakeNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usable() != nil {
		return
	}
	if waits, err := l.isWaitedFor(); err != nil || !waits {
		return
	}
	if v, err := l.look(false); err == nil {
		l.wake(v, ID{})
	}
}

// isWaitedFor reports whether the directories have a waiting claim.
func (l *Ledger) isWaitedFor() (waits bool, err error) {
	err = l.eachFile(&view{}, func(_ *slotFile, entries []entry) error {
		waits = waits || slices.ContainsFunc(entries, func(e entry) bool { return e.isWaiting() || e.damaged })
		return nil
	})
	return waits, err
}

// bell wakes waiters. The file holds words, one for each waiter or a few of them, which everybody who may use the
// ledger may write. It is only a hint: spoiling it costs time, because waiters look again by themselves.
type bell struct {
	fd    int
	words mapping // for the futex calls; never read or written through
}

const wakeName = "wake"

// wordBytes is the size of the file and of the mapping, mostWords how many words the waiting claims share. The last
// three are for the queue for the grant lock: since when a process that was woken tries to take it (0: none does), and
// those on which processes sleep.
const (
	wordBytes     = 4096
	mostWords     = wordBytes/4 - 3
	contenderWord = mostWords
	frontWord     = mostWords + 1
	backWord      = mostWords + 2
)

// Nap says how long to sleep before looking again: until a word of the wake file is no longer what it was, and at most
// for a time.
type Nap struct {
	Word, Was uint32        // the number of the word, and what it was; not set if Deaf
	Most      time.Duration // the longest time to sleep
	Deaf      bool          // whether the wake file is unusable: sleep for Most
}

func openBell(dir int) bell {
	fd, err := openAt(dir, wakeName, unix.O_RDWR, 0)
	if err != nil {
		return bell{fd: -1}
	}
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		closeFile(fd)
		return bell{fd: -1}
	}
	words, err := mapFile(fd, wordBytes, unix.PROT_READ)
	if err != nil {
		closeFile(fd)
		return bell{fd: -1}
	}
	return bell{fd, words}
}

func (b *bell) close() {
	if b.fd >= 0 {
		b.words.unmap()
		closeFile(b.fd)
		b.fd = -1
	}
}

// ring wakes those who wait on a word. It comes after the change that they wait for.
func (b *bell) ring(word uint32) {
	if b.fd < 0 {
		return
	}
	var changed [4]byte
	binary.NativeEndian.PutUint32(changed[:], uint32(now()))
	if writeAt(b.fd, changed[:], int64(4*word)) == nil {
		b.words.wake(word, 1<<30)
	}
}

// ringQueue wakes one of the processes that wait for the grant lock, unless one that was woken is still trying to take
// it. The words change for those that are about to sleep.
func (b *bell) ringQueue() {
	if b.fd < 0 || b.hasContender() {
		return
	}
	var changed [12]byte
	at := uint32(now() / 1000)
	for i := range 3 {
		binary.NativeEndian.PutUint32(changed[4*i:], at|1)
	}
	if writeAt(b.fd, changed[:], 4*contenderWord) == nil && b.words.wake(frontWord, 1) == 0 &&
		b.words.wake(backWord, 1) == 0 {
		b.noContender()
	}
}

// mostContending is for how long a process that was woken counts as one that tries, in microseconds. It may have been
// killed, or stopped.
const mostContending = 10_000

func (b *bell) hasContender() bool {
	var text [4]byte
	if readAt(b.fd, text[:], 4*contenderWord) != nil {
		return false
	}
	since := binary.NativeEndian.Uint32(text[:])
	return since != 0 && uint32(now()/1000)-since < mostContending
}

// noContender says that the process which was woken no longer tries.
func (b *bell) noContender() {
	if b.fd >= 0 {
		_ = writeAt(b.fd, make([]byte, 4), 4*contenderWord) // a hint
	}
}

// nap reads what a word is now. What rings it from now on ends the nap.
func (b *bell) nap(word uint32, most time.Duration) Nap {
	var text [4]byte
	if b.fd < 0 || readAt(b.fd, text[:], int64(4*word)) != nil {
		return Nap{Deaf: true, Most: min(most, deaf)}
	}
	return Nap{Word: word, Was: binary.NativeEndian.Uint32(text[:]), Most: most}
}

// deaf is how long a waiter sleeps if the file is unusable.
const deaf = 20 * time.Millisecond

// sleep takes a nap, or a part of it.
func (b *bell) sleep(nap Nap, most time.Duration) {
	most = min(most, nap.Most)
	if most <= 0 || !nap.Deaf && b.fd >= 0 && b.words.wait(nap.Word, nap.Was, int64(most)) == nil {
		return
	}
	pause(int64(min(most, deaf)))
}

// nap is the bell's nap, for a caller without the lock.
func (l *Ledger) nap(word uint32, most time.Duration) Nap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bell.nap(word, most)
}
