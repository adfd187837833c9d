package ledger

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// bell wakes waiters. The file holds one word, which everybody who may use the ledger may write. It is only a hint: spoiling it
// costs time, because waiters look again by themselves.
type bell struct {
	fd   int
	word mapping // for the futex calls; never read or written through
}

const wakeName = "wake"

// wordBytes is the size of the file and of the mapping.
const wordBytes = 4096

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
	word, err := mapFile(fd, wordBytes, unix.PROT_READ)
	if err != nil {
		closeFile(fd)
		return bell{fd: -1}
	}
	return bell{fd, word}
}

func (b *bell) close() {
	if b.fd >= 0 {
		b.word.unmap()
		closeFile(b.fd)
		b.fd = -1
	}
}

// ring wakes all waiters. It comes after the change that they wait for.
func (b *bell) ring() {
	if b.fd < 0 {
		return
	}
	var word [4]byte
	binary.NativeEndian.PutUint32(word[:], uint32(now()))
	if writeAt(b.fd, word[:], 0) == nil {
		b.word.wake()
	}
}

// generation is read before looking at the ledger, and passed to wait.
func (b *bell) generation() (uint32, bool) {
	var word [4]byte
	if b.fd < 0 || readAt(b.fd, word[:], 0) != nil {
		return 0, false
	}
	return binary.NativeEndian.Uint32(word[:]), true
}

// deaf is how long a waiter sleeps if the file is unusable.
const deaf = 20 * time.Millisecond

// wait sleeps until the bell rings after the generation was read, at most for a time.
func (b *bell) wait(generation uint32, heard bool, most time.Duration) {
	if most <= 0 {
		return
	}
	if heard && b.word.wait(generation, int64(most)) == nil {
		return
	}
	pause(int64(min(most, deaf)))
}
