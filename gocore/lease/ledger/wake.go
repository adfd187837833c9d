// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

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

// sleep is the bell's sleep, for a caller without the lock. If the ledger is closed meanwhile, the kernel refuses to
// read the word.
func (l *Ledger) sleep(nap Nap, most time.Duration) {
	l.mu.Lock()
	b := l.bell
	l.mu.Unlock()
	b.sleep(nap, most)
}
