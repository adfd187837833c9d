// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// A slot file belongs to one user, who alone can write it. It has a line that names the format, a directory with an
// entry for each slot, and the slots. Its name does not matter beyond its prefix: the owner of a slot is the owner of
// the file.
const (
	filePrefix  = "slots-"
	newPrefix   = ".new-"
	fileMagic   = "gpuconf slots"
	slotsInFile = 128

	directoryAt = 1024
	slotsAt     = 65536 // a multiple of every page size, so that slots never share a page with the directory
	figuresAt   = 4096  // in a process's slot
	fileBytes   = slotsAt + slotsInFile*recordBytes

	mostFiles       = 4096 // in the folder
	mostFilesOfUser = 32   // slot files
)

// slotAt is the offset of a slot. The lock of its first byte is the life of the slot.
func slotAt(slot int) int64 { return slotsAt + int64(slot)*recordBytes }

func entryAt(slot int) int64 { return directoryAt + entryBytes*int64(slot) }

// slotFile is an open slot file. It is opened for reading only: claims open the file again, so that each has a lock of
// its own.
type slotFile struct {
	name    string
	fd      int
	stat    unix.Stat_t
	version int // of the format
	known   [slotsInFile]known

	rows    [slotsInFile][entryBytes]byte // the directory as it was read last
	entries [slotsInFile]entry            // what it says
}

// slotFiles returns the slot files of the ledger, each once, even if it has several names. What is wrong with files of
// other users is added to the view's problems.
func (l *Ledger) slotFiles(v *view) ([]*slotFile, error) {
	names, err := l.list()
	if err != nil {
		return nil, err
	}
	var files []*slotFile
	seen, of := map[uint64]bool{}, map[uint32]int{}
	for _, name := range names {
		if !strings.HasPrefix(name, filePrefix) {
			continue
		}
		owner, err := l.ownerOf(name)
		if err == nil {
			if of[owner]++; of[owner] > mostFilesOfUser && l.mayPass(owner) {
				l.closeSlotFile(name)
				if of[owner] == mostFilesOfUser+1 {
					v.problems = append(v.problems,
						fmt.Sprintf("%s: user %d has more than %d slot files, which gpuconf never makes. The others "+
							"are ignored: remove them",
							l.folder, owner, mostFilesOfUser))
				}
				continue
			}
			var f *slotFile
			if f, err = l.slotFile(name); err == nil {
				if !seen[f.stat.Ino] {
					seen[f.stat.Ino] = true
					files = append(files, f)
				}
				continue
			}
		}
		if errors.Is(err, unix.ENOENT) { // its owner or the administrator has removed it
			continue
		}
		if err = l.passOver(v, owner, err); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// ownerOf returns the owner of a file, which it does not open.
func (l *Ledger) ownerOf(name string) (uint32, error) {
	if f := l.files[name]; f != nil {
		return f.stat.Uid, nil
	}
	var stat unix.Stat_t
	err := unix.Fstatat(l.dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return stat.Uid, err
}

func (l *Ledger) closeSlotFile(name string) {
	if f := l.files[name]; f != nil {
		closeFile(f.fd)
		delete(l.files, name)
	}
}

// mayPass reports whether what a user's files say may be ignored if it cannot be read.
//
// In a shared ledger, it may for other users. They alone can have spoiled it, and they harm themselves: no process
// counts their leases any longer, as if their programs used the GPUs without one, which they could do too. Refusing
// would let any user stop all others. In a private ledger, and for this user's own files, it is an error.
func (l *Ledger) mayPass(owner uint32) bool { return l.Shared && owner != l.uid }

// passOver turns an error about what a user's files say into a problem of the view, where it may be ignored. An error
// of this process, such as too many open files, stays one. A slot that is free again is no problem.
func (l *Ledger) passOver(v *view, owner uint32, err error) error {
	if errors.Is(err, errVanished) {
		return nil
	}
	if err == nil || !l.mayPass(owner) || status.CodeOf(err) != status.FailedPrecondition && !errors.Is(
		err, unix.EACCES) {
		return err
	}
	v.problems = append(v.problems, fmt.Sprintf("%v (of user %d; its leases are not counted)", err, owner))
	return nil
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
			return nil, l.tooMany(names)
		}
	}
}

// tooMany is the error of a folder that cannot be read in a reasonable time.
func (l *Ledger) tooMany(names []string) error {
	of, whose := map[uint32]int{}, uint32(0)
	for _, name := range names {
		if owner, err := l.ownerOf(name); err == nil {
			if of[owner]++; of[owner] > of[whose] {
				whose = owner
			}
		}
	}
	return status.Errorf(status.FailedPrecondition, "%s holds more than %d files, most of them of user %d. Remove "+
		"those that no program uses", l.folder, mostFiles, whose)
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
		l.closeSlotFile(name)
	}
	fd, err := openAt(l.dir, name, unix.O_RDONLY, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	if err != nil {
		return nil, l.problem(err, name, "cannot open")
	}
	f := &slotFile{name: name, fd: fd}
	for slot := range f.entries {
		f.entries[slot].damaged = true // what rows of zeros are
	}
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
		return status.Errorf(status.FailedPrecondition, "%s/%s has format version %d, which needs a gpuconf that "+
			"reads version %d; this gpuconf reads version %d. Update gpuconf",
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
		return status.Errorf(status.FailedPrecondition, "%s belongs to user %d, but the ledger is private to user %d. "+
			"Make one for several users with: gpuconf ledger init --shared FOLDER", path, f.stat.Uid, l.owner)
	}
	return nil
}

// createFile creates a slot file of this user, and takes its first slot. The slot is locked before others can open the
// file: a program that locks what it can read, which keeps its owner from taking slots, cannot keep it from this one.
// The caller holds the grant lock.
func (l *Ledger) createFile() (holding, error) {
	if err := refuseLost(lostLeases(l.folder, true, nil)); err != nil {
		// This user's files, or the whole ledger, may have been removed.
		return holding{}, err
	}
	if err := l.removeUnfinished(); err != nil {
		return holding{}, err
	}
	name := filePrefix + fmt.Sprint(l.uid) + "-" + randomName()
	fd, err := l.create(name, l.fileMode(), fileBytes, emptyFile(), func(fd int) error {
		_, err := tryLock(fd, slotAt(0))
		return err
	})
	if err != nil {
		return holding{}, err
	}
	f, err := l.slotFile(name)
	if err != nil {
		closeFile(fd)
		return holding{}, err
	}
	return holding{f, fd, 0}, nil
}

// makeRoom is called when no slot of this user's files can be taken, which is rare: all are in use, or other programs
// lock them. It removes files without a live slot, and refuses to make more than a user may have. The caller holds the
// grant lock.
func (l *Ledger) makeRoom() error {
	var own []*slotFile
	for name, f := range l.files {
		if f.stat.Uid != l.uid {
			continue
		}
		if lives, err := isLockedWithin(f.fd, 0, 0); err != nil || lives {
			own = append(own, f)
			continue
		}
		about("unlink")
		_ = unix.Unlinkat(l.dir, name, 0) // if this fails, it counts in the next call
		l.closeSlotFile(name)
	}
	if len(own) < mostFilesOfUser {
		return nil
	}
	return status.Errorf(status.Unavailable, "%s has no room: user %d has %d slot files, the most that a user may "+
		"have, and no slot of them is free%s", l.folder, l.uid, len(own),
		lockers(own))
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

// install creates a file, unless there is one.
func (l *Ledger) install(name string, mode uint32, size int64, text string) error {
	fd, err := l.create(name, mode, size, text, nil)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err == nil {
		closeFile(fd)
	}
	return err
}

// create creates a file under a temporary name, writes it, and gives it its name. prepare, unless nil, is called before
// others may open it. The file takes all of its space now: on a full disk, a write to a mapped hole would end the
// process.
func (l *Ledger) create(name string, mode uint32, size int64, text string, prepare func(fd int) error) (
	fd int, err error) {
	temporary := newPrefix + fmt.Sprint(l.uid) + "-" + randomName()
	fd, err = openAt(l.dir, temporary, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return -1, l.problem(err, name, "cannot create")
	}
	defer func() {
		if err != nil {
			closeFile(fd)
			err = l.problem(err, name, "cannot create")
		}
		about("unlink")
		_ = unix.Unlinkat(l.dir, temporary, 0) // if this fails, the next one that creates a file removes it
	}()
	if err = allocate(fd, size); err == nil {
		err = writeAt(fd, []byte(text), 0)
	}
	if err == nil && prepare != nil {
		err = prepare(fd)
	}
	if err == nil {
		about("chmod")
		err = unix.Fchmod(fd, mode)
	}
	if err == nil {
		about("link")
		err = unix.Linkat(l.dir, temporary, l.dir, name, 0)
	}
	return fd, err
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

// removeUnfinished removes what processes of this user left that ended while they created a file. The caller holds the
// grant lock, so none of them lives.
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
		return status.Errorf(status.FailedPrecondition, "%s/%s is not a regular file: %s is not a ledger. Choose "+
			"an empty or new folder", l.folder, name, l.folder)
	case stat.Uid != l.owner:
		return status.Errorf(status.FailedPrecondition, "%s/%s belongs to user %d, and the folder to user %d. Do "+
			"not use this ledger", l.folder, name, stat.Uid, l.owner)
	case stat.Mode&0o022 != 0:
		return status.Errorf(status.FailedPrecondition, "%s/%s can be written by other users (mode %03o). Do not "+
			"use this ledger", l.folder, name, stat.Mode&0o777)
	}
	return nil
}
