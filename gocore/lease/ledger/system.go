// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/invariants"
)

// The system calls of this package. Tests end the process before the n-th of them, for every n (invariants builds
// only).

// BeforeSystemCall is called before each system call that changes something or takes a lock, in builds with invariants.
// It is nil except in tests.
var BeforeSystemCall func(name string)

func about(name string) {
	if invariants.Enabled && BeforeSystemCall != nil {
		BeforeSystemCall(name)
	}
}

// openAt opens a file of a folder without following a symbolic link, and without passing it to programs that this
// process executes.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	about("open " + name)
	return retry(func() (int, error) {
		// O_NONBLOCK: a FIFO must not block
		return unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, mode)
	})
}

func closeFile(fd int) {
	about("close")
	_ = unix.Close(fd) // nothing is buffered, so an error loses nothing
}

// readAt fills data from an offset. A short file is errShort.
func readAt(fd int, data []byte, offset int64) error {
	n, err := retry(func() (int, error) { return unix.Pread(fd, data, offset) })
	if err == nil && n < len(data) {
		return errShort
	}
	return err
}

var errShort = errors.New("the file is shorter than it should be")

func writeAt(fd int, data []byte, offset int64) error {
	about("write")
	n, err := retry(func() (int, error) { return unix.Pwrite(fd, data, offset) })
	if err == nil && n < len(data) {
		return unix.ENOSPC
	}
	return err
}

// tryFlock takes the exclusive lock of a whole file, which needs no permission to write to it.
func tryFlock(fd int) (bool, error) {
	about("flock")
	_, err := retry(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// tryLock takes the open-file-description lock of one byte. The lock belongs to the open file: it ends when the last
// descriptor of it is closed, in whichever process.
func tryLock(fd int, at int64) (bool, error) {
	about("lock")
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: at, Len: 1}
	_, err := retry(func() (int, error) { return 0, unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock) })
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// isLocked reports whether some open file holds the lock of a byte. The probe is for a read lock: users who can only
// read the file can take no other, and those do not conflict.
func isLocked(fd int, at int64) (bool, error) {
	return isLockedWithin(fd, at, 1)
}

// isLockedWithin reports the same of some byte of several; no bytes: of the whole file.
func isLockedWithin(fd int, at, bytes int64) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_RDLCK, Whence: unix.SEEK_SET, Start: at, Len: bytes}
	_, err := retry(func() (int, error) { return 0, unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lock) })
	return err == nil && lock.Type != unix.F_UNLCK, err
}

func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// pause lets other processes run for a moment.
func pause(nanoseconds int64) {
	ts := unix.NsecToTimespec(nanoseconds)
	_ = unix.Nanosleep(&ts, nil)
}
