// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/status"
)

// A slot file belongs to one user, who alone can write it. It has a line that names the format, a directory with an entry for each slot, and the
// slots. Its name does not matter beyond its prefix: the owner of a slot is the owner of the file.
const (
	filePrefix  = "slots-"
	newPrefix   = ".new-"
	fileMagic   = "gpuconf slots"
	slotsInFile = 128

	directoryAt = 1024
	slotsAt     = 65536 // a multiple of every page size, so that slots never share a page with the directory
	figuresAt   = 4096  // in a process's slot
	fileBytes   = slotsAt + slotsInFile*recordBytes

	mostFiles = 4096
)

// slotAt is the offset of a slot. The lock of its first byte is the life of the slot.
func slotAt(slot int) int64 { return slotsAt + int64(slot)*recordBytes }

func entryAt(slot int) int64 { return directoryAt + entryBytes*int64(slot) }

// slotFile is an open slot file. It is opened for reading only: claims open the file again, so that each has a lock of its own.
type slotFile struct {
	name    string
	fd      int
	stat    unix.Stat_t
	version int // of the format
	known   [slotsInFile]known
}

// slotFiles returns all slot files of the ledger, each once, even if it has several names.
func (l *Ledger) slotFiles() ([]*slotFile, error) {
	names, err := l.list()
	if err != nil {
		return nil, err
	}
	var files []*slotFile
	seen := map[uint64]bool{}
	for _, name := range names {
		if !strings.HasPrefix(name, filePrefix) {
			continue
		}
		f, err := l.slotFile(name)
		if errors.Is(err, unix.ENOENT) { // its owner or the administrator has removed it
			continue
		}
		if err != nil {
			return nil, err
		}
		if !seen[f.stat.Ino] {
			seen[f.stat.Ino] = true
			files = append(files, f)
		}
	}
	return files, nil
}

// list returns the names in the folder.
func (l *Ledger) list() ([]string, error) {
	fd, err := openAt(l.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, l.folderProblem(err)
	}
	defer closeFile(fd)
	var names []string
	for buffer := make([]byte, 16384); ; {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, buffer) })
		if err != nil {
			return nil, l.folderProblem(err)
		}
		if n <= 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
		if len(names) > mostFiles {
			return nil, status.Errorf(status.FailedPrecondition, "%s holds more than %d files. Remove the files that "+
				"are not a ledger's", l.folder, mostFiles)
		}
	}
}

// slotFile opens a slot file, or returns it if it is open, and checks that only its owner can write it.
func (l *Ledger) slotFile(name string) (*slotFile, error) {
	if f := l.files[name]; f != nil {
		if err := unix.Fstat(f.fd, &f.stat); err != nil {
			return nil, l.problem(err, name, "cannot read")
		}
		if f.stat.Nlink > 0 {
			return f, l.checkFile(f)
		}
		closeFile(f.fd)
		delete(l.files, name)
	}
	fd, err := openAt(l.dir, name, unix.O_RDONLY, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	if err != nil {
		return nil, l.problem(err, name, "cannot open")
	}
	f := &slotFile{name: name, fd: fd}
	if err := unix.Fstat(fd, &f.stat); err != nil {
		closeFile(fd)
		return nil, l.problem(err, name, "cannot read")
	}
	if err = l.readFormat(f); err == nil {
		err = l.checkFile(f)
	}
	if err != nil {
		closeFile(fd)
		return nil, err
	}
	l.files[name] = f
	return f, nil
}

// readFormat reads the first line of a slot file. What has no such line is checked as a file of this version.
func (l *Ledger) readFormat(f *slotFile) error {
	var text [directoryAt]byte
	f.version = version
	if f.stat.Mode&unix.S_IFMT != unix.S_IFREG || f.stat.Size < fileBytes {
		return nil // what checkFile refuses
	}
	if err := readAt(f.fd, text[:], 0); err != nil {
		return l.problem(err, f.name, "cannot read")
	}
	written, least, _, ok := parseFormat(string(text[:]), fileMagic)
	if ok && least > version {
		return status.Errorf(status.FailedPrecondition, "%s/%s has format version %d, which needs a gpuconf that reads version %d; this gpuconf reads version %d. Update gpuconf",
			l.folder, f.name, written, least, version)
	}
	if !ok || written < leastReader {
		return damaged(l.folder+"/"+f.name, "it does not begin like a slot file of this version")
	}
	f.version = written
	return nil
}

func (l *Ledger) checkFile(f *slotFile) error {
	path := l.folder + "/" + f.name
	switch {
	case f.stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return damaged(path, "it is not a regular file")
	case f.stat.Size < fileBytes:
		return damaged(path, fmt.Sprintf("it is truncated to %d of %d bytes", f.stat.Size, fileBytes))
	case f.stat.Size > fileBytes && f.version == version: // a later one may have more, which this one does not know
		return damaged(path, fmt.Sprintf("it has %d bytes instead of %d", f.stat.Size, fileBytes))
	case f.stat.Mode&0o022 != 0:
		return status.Errorf(status.FailedPrecondition, "%s can be written by users other than its owner %d (mode "+
			"%03o). Set mode 644", path, f.stat.Uid, f.stat.Mode&0o777)
	case !l.Shared && f.stat.Uid != l.owner:
		return status.Errorf(status.FailedPrecondition, "%s belongs to user %d, but the ledger is private to user %d. Make one for several users with: "+
			"gpuconf ledger init --shared FOLDER", path, f.stat.Uid, l.owner)
	}
	return nil
}

// createFile creates an empty slot file of this user. The caller holds the grant lock.
func (l *Ledger) createFile() (*slotFile, error) {
	if err := l.removeUnfinished(); err != nil {
		return nil, err
	}
	name := filePrefix + fmt.Sprint(l.uid) + "-" + randomName()
	if err := l.install(name, l.fileMode(), fileBytes, emptyFile()); err != nil {
		return nil, err
	}
	return l.slotFile(name)
}

// emptyFile is the beginning of a slot file: the line that names the format, and the directory. What follows is 0.
func emptyFile() string {
	line := fmt.Sprintf("%s version %d reader %d\n", fileMagic, version, leastReader)
	return line + string(make([]byte, directoryAt-len(line))) + string(emptyDirectory())
}

func (l *Ledger) fileMode() uint32 {
	if !l.Shared {
		return 0o600
	}
	return 0o600 | l.mode&0o044 // who can read the folder can read the files
}

// install creates a file under a temporary name, writes it, and gives it its name, unless there is one. It takes all of its space now:
// on a full disk, a write to a mapped hole would end the process.
func (l *Ledger) install(name string, mode uint32, size int64, text string) (err error) {
	temporary := newPrefix + fmt.Sprint(l.uid) + "-" + randomName()
	fd, err := openAt(l.dir, temporary, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return l.problem(err, name, "cannot create")
	}
	defer func() {
		closeFile(fd)
		about("unlink")
		_ = unix.Unlinkat(l.dir, temporary, 0) // if this fails, the next one that creates a file removes it
	}()
	if err = allocate(fd, size); err == nil {
		err = writeAt(fd, []byte(text), 0)
	}
	if err == nil {
		about("chmod")
		err = unix.Fchmod(fd, mode)
	}
	if err == nil {
		about("link")
		err = unix.Linkat(l.dir, temporary, l.dir, name, 0)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return l.problem(err, name, "cannot create")
	}
	return nil
}

func allocate(fd int, size int64) error {
	about("allocate")
	_, err := retry(func() (int, error) { return 0, unix.Fallocate(fd, 0, 0, size) })
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	zeros := make([]byte, 1<<16)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if err := writeAt(fd, zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// removeUnfinished removes what processes of this user left that ended while they created a file. The caller holds the grant lock, so
// none of them lives.
func (l *Ledger) removeUnfinished() error {
	names, err := l.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, newPrefix+fmt.Sprint(l.uid)+"-") {
			about("unlink")
			_ = unix.Unlinkat(l.dir, name, 0)
		}
	}
	return nil
}

func randomName() string {
	var name [6]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}
