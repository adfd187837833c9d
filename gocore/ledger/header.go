// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/status"
)

// The header names the format. Its flock is the grant lock.
const (
	headerName  = "ledger"
	headerMagic = "gpuconf ledger"
	version     = 2 // 1 had no bytes in use by library
)

// headerText is the whole header file: one line.
func headerText(shared bool) string {
	kind := "private"
	if shared {
		kind = "shared"
	}
	return fmt.Sprintf("%s version %d %s\n", headerMagic, version, kind)
}

// readHeader checks the header file of an open folder and reports whether the ledger is shared.
func (l *Ledger) readHeader() error {
	fd, err := openAt(l.dir, headerName, unix.O_RDONLY, 0)
	if err != nil {
		return l.problem(err, headerName, "cannot open")
	}
	defer closeFile(fd)
	if err := unix.Fstat(fd, &l.header); err != nil {
		return l.problem(err, headerName, "cannot read")
	}
	if err := l.trusted(headerName, &l.header); err != nil {
		return err
	}
	data := make([]byte, 256)
	n, err := retry(func() (int, error) { return unix.Pread(fd, data, 0) })
	if err != nil {
		return l.problem(err, headerName, "cannot read")
	}
	return l.parseHeader(string(data[:n]))
}

func (l *Ledger) parseHeader(text string) error {
	for _, shared := range []bool{false, true} {
		if text == headerText(shared) {
			l.Shared = shared
			return nil
		}
	}
	var number int
	if strings.HasPrefix(text, headerMagic+" version ") {
		if _, err := fmt.Sscanf(text, headerMagic+" version %d ", &number); err == nil && number != version {
			return status.Errorf(status.FailedPrecondition, "%s/%s has format version %d; this gpuconf uses version %d. Use the same gpuconf in all programs "+
				"that share the ledger, choose another folder with GPUCONF_LEDGER, or remove this one if no program uses it", l.folder, headerName, number, version)
		}
	}
	return status.Errorf(status.FailedPrecondition, "%s/%s is damaged, or not a ledger of gpuconf. If no program uses the folder, remove it", l.folder, headerName)
}

// trusted refuses a file that belongs to another user than the folder, or that others can write.
func (l *Ledger) trusted(name string, stat *unix.Stat_t) error {
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return status.Errorf(status.FailedPrecondition, "%s/%s is not a regular file", l.folder, name)
	case stat.Uid != l.owner:
		return status.Errorf(status.FailedPrecondition, "%s/%s belongs to user %d, and the folder to user %d. Do not use this ledger", l.folder, name, stat.Uid, l.owner)
	case stat.Mode&0o022 != 0:
		return status.Errorf(status.FailedPrecondition, "%s/%s can be written by other users (mode %03o). Do not use this ledger", l.folder, name, stat.Mode&0o777)
	}
	return nil
}
