// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// Leases that live in files which the ledger no longer has: its folder or a slot file was removed while programs used
// it, or they run an older gpuconf, whose ledger lies elsewhere. The processes still hold the open files, and /proc
// shows those of this user.

// oldFolders are where gpuconf 0.2 had the private ledger of a user, if the folder is today's. The run-time directory,
// here where systemd puts it, goes away when the user logs out, and their jobs may not.
func oldFolders(folder string) []string {
	uid := strconv.Itoa(os.Geteuid())
	if !isOwnPlace(folder) {
		return nil
	}
	return []string{"/run/user/" + uid + "/gpuconf-ledger", "/tmp/gpuconf-ledger-" + uid}
}

// Lost returns the leases of this user that are not in the ledger of a folder, and not below it either, one sentence
// for each process.
func Lost(folder string) (found []string) {
	return lostLeases(filepath.Clean(folder), true, oldFolders(folder))
}

// lostLeases looks for open slot files: removed ones of the folder, unless removed is false, and those of older
// folders.
func lostLeases(folder string, removed bool, older []string) (leases []string) {
	older = slices.DeleteFunc(older, func(old string) bool {
		return !removed &&
			unix.Access(old+"/"+headerName, unix.F_OK) != nil
	})
	if !removed && len(older) == 0 {
		return nil
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	links, readLocks := 0, false
	for _, process := range processes {
		if links > linksBeforeLocks && !readLocks {
			if readLocks = true; !locksElsewhere(folder) {
				return leases
			}
		}
		descriptors, _ := os.ReadDir(process + "/fd") // none: it has ended, or belongs to another user
		links += len(descriptors)
		for _, d := range descriptors {
			link := process + "/fd/" + d.Name()
			path, err := os.Readlink(link)
			name := strings.TrimSuffix(path, " (deleted)") // also said of a file that was created under another name
			base := filepath.Base(name)
			if err != nil || !strings.HasPrefix(base, filePrefix) && !strings.HasPrefix(base, newPrefix) {
				continue
			}
			var stat unix.Stat_t
			in := filepath.Dir(name)
			isRemoved := unix.Stat(link, &stat) == nil && stat.Nlink == 0
			isLost := removed && isRemoved && in == folder || in != folder && slices.Contains(older, in)
			if !isLost || !holdsLease(process, d.Name()) {
				continue
			}
			why := "the ledger of gpuconf 0.2"
			if isRemoved {
				why = "in a file that was removed while it was in use"
			}
			command, _ := os.ReadFile(process + "/comm")
			leases = append(leases, fmt.Sprintf("process %s (%s) has a lease in %s, %s", filepath.Base(process),
				Clean(strings.TrimSpace(string(command)), 16), in, why))
			break
		}
	}
	return leases
}

// linksBeforeLocks is the number of open files whose names take about as long to read as the list of all locks: 5 to
// 10 ms. However short that list is, the kernel lets its reader wait until no processor changes it.
const linksBeforeLocks = 1000

// locksElsewhere reports whether the kernel may have a lock of a slot in a file that is not in the folder. A lease
// holds one, and the list of all locks is shorter than those of the files that all processes have open.
func locksElsewhere(folder string) bool {
	locks, err := listLocks()
	if err != nil {
		return true
	}
	var own []string
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		var stat unix.Stat_t
		if unix.Lstat(filepath.Join(folder, e.Name()), &stat) == nil {
			own = append(own, lockedFile(&stat))
		}
	}
	for line := range strings.Lines(locks) {
		fields := strings.Fields(line) // "1: OFDLCK ADVISORY  WRITE -1 fe:00:1234 65536 65536"
		if len(fields) < 7 || fields[1] != "OFDLCK" || slices.Contains(own, fields[5]) {
			continue
		}
		if at, err := strconv.ParseInt(fields[6], 10, 64); err != nil || at < fileBytes {
			return true
		}
	}
	return false
}

// holdsLease reports whether an open file of a process holds a slot, and the file has a live lease. The slots and their
// locks are at the same places in all formats; the directory of format 2 had words of 8 bytes.
func holdsLease(process, descriptor string) bool {
	text, err := os.ReadFile(process + "/fdinfo/" + descriptor)
	if err != nil {
		return false
	}
	var position int64
	var flags uint64
	if _, err := fmt.Sscanf(string(text), "pos: %d\nflags: %o", &position, &flags); err != nil ||
		flags&unix.O_ACCMODE != unix.O_RDWR {
		return false // a reader of the ledger
	}
	fd, err := unix.Open(process+"/fd/"+descriptor, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer closeFile(fd)
	magic, rows := make([]byte, len("gpuconf slots version 2")), make([]byte, entryBytes*slotsInFile)
	if readAt(fd, magic, 0) != nil || readAt(fd, rows, directoryAt) != nil {
		return false
	}
	size := entryBytes
	if string(magic) == "gpuconf slots version 2" {
		size = 8
	}
	for slot := range slotsInFile {
		if e := rows[size*slot:]; e[0] != kindClaim || e[1] != stateGranted {
			continue
		}
		if lives, err := isLocked(fd, slotAt(slot)); lives || err != nil {
			return true
		}
	}
	return false
}

// olderLeases looks once for leases in ledgers of gpuconf 0.2.
func (l *Ledger) olderLeases() (leases []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasLookedBack {
		leases = lostLeases(l.folder, false, oldFolders(l.folder))
		l.hasLookedBack = len(leases) == 0
	}
	return leases
}

// refuseLost refuses to lease what a lost lease has already.
func refuseLost(leases []string) error {
	if len(leases) == 0 {
		return nil
	}
	more := ""
	if len(leases) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(leases)-1)
	}
	return status.Errorf(status.FailedPrecondition, "%s%s. A lease here could take the same memory again: end that "+
		"process, or wait until it has ended",
		leases[0], more)
}

// touchEvery is how often a granted claim touches the files of its ledger. Programs that clean up folders for temporary
// files remove what has been still for days.
const touchEvery = 6 * time.Hour

// touch touches them, and again later. The files of others in a shared ledger are theirs to touch.
func (c *Claim) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return
	}
	for _, name := range []string{"", headerName, wakeName, c.held.file.name} {
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(c.ledger.folder, name), nil, unix.AT_SYMLINK_NOFOLLOW)
	}
	c.toucher = time.AfterFunc(touchEvery, c.touch)
}
