// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// The header is a line of text: "gpuconf ledger version 3 reader 3 private". It names the version of the format, the
// least version that a gpuconf must read to use the ledger, and whether it is shared. Later versions may add words. Its
// flock is the grant lock.
//
// The owner of the ledger writes it, and others cannot: nothing else can lock a reader out. Whatever a later version
// writes into a ledger, a reader of the header's least version must be able to sum the leases of each card.
const (
	headerName  = "ledger"
	headerMagic = "gpuconf ledger"
	version     = 3 // 1 had no bytes in use by library, 2 no lengths
	leastReader = 3
)

// headerText is the whole header file.
func headerText(shared bool) string {
	kind := "private"
	if shared {
		kind = "shared"
	}
	return fmt.Sprintf("%s version %d reader %d %s\n", headerMagic, version, leastReader, kind)
}

// parseFormat reads the first line of a file: what it is, its version, the least version that reads it (0: it does not
// say), and more words.
func parseFormat(text, magic string) (written, least int, words []string, ok bool) {
	line, _, ended := strings.Cut(text, "\n")
	line, named := strings.CutPrefix(line, magic+" version ")
	words = strings.Fields(line)
	if !ended || !named || len(words) == 0 {
		return 0, 0, nil, false
	}
	written, err := strconv.Atoi(words[0])
	if words = words[1:]; err == nil && len(words) > 1 && words[0] == "reader" {
		least, err = strconv.Atoi(words[1])
		words = words[2:]
	}
	return written, least, words, err == nil && written > 0 && least >= 0 && least <= written
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
	data := make([]byte, 4096)
	n, err := retry(func() (int, error) { return unix.Pread(fd, data, 0) })
	if err != nil {
		return l.problem(err, headerName, "cannot read")
	}
	return l.parseHeader(string(data[:n]))
}

func (l *Ledger) parseHeader(text string) error {
	path := l.folder + "/" + headerName
	written, least, words, ok := parseFormat(text, headerMagic)
	switch {
	case ok && written < leastReader:
		return status.Errorf(status.FailedPrecondition, "%s has format version %d, of an older gpuconf; this gpuconf "+
			"uses version %d. Update gpuconf in all programs that share the ledger. When none of them runs, remove "+
			"the folder; until then, choose another one with GPUCONF_LEDGER", path, written, version)
	case ok && least > version:
		return status.Errorf(status.FailedPrecondition, "%s has format version %d, which needs a gpuconf that reads "+
			"version %d; this gpuconf reads version %d. Update gpuconf, or choose another folder with GPUCONF_LEDGER",
			path, written, least, version)
	case ok && least > 0 && len(words) > 0 && (words[0] == "private" || words[0] == "shared"):
		l.Shared = words[0] == "shared"
		return nil
	}
	return status.Errorf(status.FailedPrecondition, "%s is damaged, or not a ledger of gpuconf. If no program uses "+
		"the folder, remove it", path)
}

// trusted refuses a file that belongs to another user than the folder, or that others can write.
func (l *Ledger) trusted(name string, stat *unix.Stat_t) error {
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return status.Errorf(status.FailedPrecondition, "%s/%s is not a regular file", l.folder, name)
	case stat.Uid != l.owner:
		return status.Errorf(status.FailedPrecondition, "%s/%s belongs to user %d, and the folder to user %d. Do "+
			"not use this ledger", l.folder, name, stat.Uid, l.owner)
	case stat.Mode&0o022 != 0:
		return status.Errorf(status.FailedPrecondition, "%s/%s can be written by other users (mode %03o). Do not "+
			"use this ledger", l.folder, name, stat.Mode&0o777)
	}
	return nil
}
