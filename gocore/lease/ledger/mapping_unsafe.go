// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/pool/figures"
)

const (
	futexWait = 0
	futexWake = 1
)

// mapping is a file in this process's memory.
type mapping []byte

// wait sleeps until a word is woken, at most for a time. It returns at once if the word is no longer old. Only the
// kernel reads the word: a truncated file is an error there, and would be a SIGBUS here.
func (m mapping) wait(word, old uint32, nanoseconds int64) error {
	ts := unix.NsecToTimespec(nanoseconds)
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&m[4*word])), futexWait, uintptr(old),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno == 0 || errno == unix.EAGAIN || errno == unix.EINTR || errno == unix.ETIMEDOUT {
		return nil
	}
	return errno
}

// wake wakes so many of those who wait on a word, and returns how many there were.
func (m mapping) wake(word uint32, most uintptr) (woken int) {
	about("wake")
	n, _, _ := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&m[4*word])), futexWake, most, 0, 0, 0)
	return int(n)
}

// address is where the words are, for callers that sleep outside of Go.
func (m mapping) address() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m))) }

// pools returns the live figures at an offset.
func (m mapping) pools(offset int64, count int) []figures.Pool {
	return unsafe.Slice((*figures.Pool)(unsafe.Pointer(&m[offset])), count)
}

// mapFile maps the beginning of a file. Forked children do not get the mapping, because it keeps the open file alive.
func mapFile(fd, bytes, protection int) (mapping, error) {
	about("map")
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(bytes), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	m := mapping(unsafe.Slice((*byte)(p), bytes))
	if err := unix.Madvise(m, unix.MADV_DONTFORK); err != nil {
		m.unmap()
		return nil, err
	}
	return m, nil
}

func (m mapping) unmap() { _ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(m)), uintptr(len(m))) }
