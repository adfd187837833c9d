// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// File is a file that Python has opened. Go reads it, so that Python neither waits for the disk nor holds the contents.
type File struct{ fd int }

// ShareFile duplicates a file descriptor. This package closes the duplicate; Python may close the original at any time.
func ShareFile(fd int64) (*File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, status.Errorf(status.InvalidArgument, "file descriptor %d: %w", fd, err)
	}
	return &File{own}, nil
}

// Close closes the descriptor.
func (f *File) Close() { _ = unix.Close(f.fd) } // nothing was written, so an error loses nothing

const (
	chunkBytes = 1 << 20
	firstBytes = 4096
	pollMS     = 50
)

// ReadAll reads to the end, or until the context is done. accept gets the first bytes, of a pipe again with each part
// of its first 4 KiB, so that a file of another kind is not read whole.
func (f *File) ReadAll(ctx context.Context, accept func(first []byte) error) ([]byte, error) {
	data := make([]byte, 0, max(f.size()+1, firstBytes))
	for {
		if err := f.ready(ctx); err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = append(data, make([]byte, chunkBytes)...)[:len(data)]
		}
		n, err := unix.Read(f.fd, data[len(data):min(cap(data), len(data)+chunkBytes)])
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return nil, status.Errorf(status.Unavailable, "reading the file: %w", err)
		case n == 0:
			return data, nil
		}
		before := len(data)
		data = data[:before+n]
		if before < firstBytes {
			if err := accept(data); err != nil {
				return nil, err
			}
		}
	}
}

// size returns the size of a regular file, up to a bound. It is a hint and may be wrong.
func (f *File) size() int {
	const most = 1 << 30
	var stat unix.Stat_t
	if unix.Fstat(f.fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return int(min(max(stat.Size, 0), most))
}

// ready waits until there is something to read. A regular file is always ready.
func (f *File) ready(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}, pollMS)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return nil // the read reports the error
		}
	}
}

// IsText reports whether the beginning of a file may be text.
func IsText(first []byte) bool { return bytes.IndexByte(first, 0) < 0 }
