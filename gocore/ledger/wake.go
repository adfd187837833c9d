// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// bell wakes waiters. The file holds words, one for each waiter or a few of them, which everybody who may use the ledger may write. It
// is only a hint: spoiling it costs time, because waiters look again by themselves.
type bell struct {
	fd    int
	words mapping // for the futex calls; never read or written through
}

const wakeName = "wake"

// wordBytes is the size of the file and of the mapping, mostWords how many words that is.
const (
	wordBytes = 4096
	mostWords = wordBytes / 4
)

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
		b.words.wake(word)
	}
}

// generation is read before looking at the ledger, and passed to wait.
func (b *bell) generation(word uint32) (value uint32, heard bool) {
	var text [4]byte
	if b.fd < 0 || readAt(b.fd, text[:], int64(4*word)) != nil {
		return 0, false
	}
	return binary.NativeEndian.Uint32(text[:]), true
}

// deaf is how long a waiter sleeps if the file is unusable.
const deaf = 20 * time.Millisecond

// wait sleeps until the word's bell rings after the generation was read, at most for a time.
func (b *bell) wait(word, generation uint32, most time.Duration) {
	if most <= 0 || b.fd >= 0 && b.words.wait(word, generation, int64(most)) == nil {
		return
	}
	pause(int64(min(most, deaf)))
}
