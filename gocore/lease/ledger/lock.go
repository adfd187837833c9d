// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// grantLock is the lock under which grants are decided: the flock of the header file. It is held for microseconds.
type grantLock struct {
	fd   int
	bell *bell
}

// ErrBusy is wrapped by the errors of calls that did not get the grant lock in time. The caller may try again, after a
// nap.
var ErrBusy = status.Errorf(status.Unavailable, "the ledger is locked")

// Busy is such an error. Its text names the process that holds the lock, and is made only when it is read.
type Busy struct {
	Nap    Nap // until it is worth trying again
	folder string
	header unix.Stat_t
}

// Unwrap returns ErrBusy.
func (b *Busy) Unwrap() error { return ErrBusy }

func (b *Busy) Error() string {
	return fmt.Sprintf("%v: %s holds the lock of %s/%s. It should last microseconds; if that process is stopped, "+
		"continue or end it", ErrBusy,
		lockHolder(&b.header), b.folder, headerName)
}

// queue is how long this process has been trying to take the grant lock. Who finds it taken sleeps on a word of the
// wake file. An unlock wakes one process, the contender, which tries again and again for some milliseconds; until it
// has the lock or sleeps again, an unlock wakes no process. So at most one process competes with those that are running
// anyway: with many awake, each would wait for a processor while no process has the lock. A contender that was not fast
// enough sleeps on another word, in front of those that were never woken.
//
// The words are hints. A contender may be killed, and in a shared ledger anybody may write them or swallow what they
// wake. So no sleep is long, and waking too often ends in plain sleeps.
type queue struct {
	naps  uint64 // so far; 0: it is not waiting
	since uint64
}

// The sleeps in the queue, at first and later, the pauses of a contender, and for how long it is one, in nanoseconds.
const (
	firstSleep    = 150_000_000
	longestSleep  = 600_000_000
	firstPause    = 10_000
	longestPause  = 1_000_000
	contenderTime = 5_000_000
)

// Naps beyond a number, and beyond one in a time, are plain sleeps: something wakes this process that is not an unlock.
const (
	freeNaps     = 50
	timeOfNap    = 500_000
	plainSleepNS = 2_000_000
)

// next returns the next nap of the queue. The caller tries to take the lock after it: what is unlocked then ends the
// nap.
func (q *queue) next(b *bell) Nap {
	at := now()
	if q.naps++; q.naps == 1 {
		q.since = at
	}
	if q.naps > freeNaps+(at-q.since)/timeOfNap {
		return Nap{Deaf: true, Most: plainSleepNS}
	}
	word := uint32(frontWord)
	if q.naps == 1 {
		word = backWord
	}
	return b.nap(word, time.Duration(min(firstSleep<<min(q.naps-1, 10), longestSleep)))
}

// contend tries to take the lock for some time.
func contend(fd int) (got bool, err error) {
	end := now() + contenderTime
	for sleep := int64(firstPause); ; sleep = min(2*sleep, longestPause) {
		if got, err = tryFlock(fd); got || err != nil || now() > end {
			return got, err
		}
		pause(sleep)
	}
}

// lock takes the grant lock. The file is opened for each use: a forked child then has a copy of the open file, which
// would keep the lock if this process dies, only if the fork falls into these microseconds. The caller holds mu.
func (l *Ledger) lock(patience time.Duration) (grantLock, error) {
	fd, err := openAt(unix.AT_FDCWD, l.folder+"/"+headerName, unix.O_RDONLY, 0)
	if err != nil {
		return grantLock{}, l.problem(err, headerName, "cannot open")
	}
	if err := l.sameHeader(fd); err != nil {
		closeFile(fd)
		return grantLock{}, err
	}
	deadline := now() + uint64(patience)
	got, err := tryFlock(fd)
	for !got && err == nil {
		if l.queue.naps > 0 {
			if got, err = contend(fd); got || err != nil {
				break
			}
			l.bell.noContender()
		}
		nap := l.queue.next(&l.bell)
		if got, err = tryFlock(fd); got || err != nil {
			break
		}
		left := int64(deadline) - int64(now())
		if left <= 0 {
			closeFile(fd)
			return grantLock{}, &Busy{nap, l.folder, l.header}
		}
		l.bell.sleep(nap, time.Duration(left))
	}
	if err != nil {
		closeFile(fd)
		return grantLock{}, l.problem(err, headerName, "cannot lock")
	}
	if l.queue.naps > 0 {
		l.bell.noContender()
	}
	l.queue = queue{}
	return grantLock{fd, &l.bell}, nil
}

// unlock ends the lock also for a forked child that has a copy of the open file. A child never unlocks: it cannot run
// this code.
func (g grantLock) unlock() {
	about("unlock")
	_ = unix.Flock(g.fd, unix.LOCK_UN) // cannot fail for a lock that is held; the close below ends it too
	g.bell.ringQueue()
	closeFile(g.fd)
}

// lockHolder finds the process that holds the flock of a file.
func lockHolder(stat *unix.Stat_t) string {
	for _, owner := range lockOwners("FLOCK", "", []string{lockedFile(stat)}) {
		if pid, err := strconv.Atoi(owner); err == nil && pid > 0 {
			return fmt.Sprintf("process %d", pid)
		}
	}
	return "another process"
}

// sameHeader refuses a ledger whose folder was removed or replaced since it was opened: others would use another one.
func (l *Ledger) sameHeader(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return l.problem(err, headerName, "cannot read")
	}
	if stat.Ino != l.header.Ino || stat.Dev != l.header.Dev || stat.Nlink == 0 {
		return status.Errorf(status.FailedPrecondition, "%s/%s was replaced while it was in use. Restart the "+
			"programs that use this ledger", l.folder, headerName)
	}
	return nil
}

// lockers names the processes that hold read locks of files, as far as the kernel lists them: open-file-description
// locks have no process there. gpuconf takes none, so they only keep the owner from using the files.
func lockers(files []*slotFile) string {
	var locked, owners []string
	for _, f := range files {
		locked = append(locked, lockedFile(&f.stat))
	}
	for _, owner := range lockOwners("", "READ", locked) {
		who := "process " + owner
		if owner == "-1" || owner == "0" { // 0: of another PID namespace
			who = "a process that the kernel does not name"
		}
		if !slices.Contains(owners, who) {
			owners = append(owners, who)
		}
	}
	if len(owners) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s locks slots of them: end it", strings.Join(owners[:min(len(owners), 3)], ", "))
}

// The bytes of /proc/locks that one call may return, and how often the file is read for a lock that must be in it.
const (
	listedAtOnce = 1 << 16
	listings     = 10
)

// listLocks returns the text of /proc/locks.
//
// The kernel lists the locks as they are at each call, and the next call skips as many as were listed before: where
// others have let go of theirs in between, it misses some. So a call reads much at once.
func listLocks() (string, error) {
	fd, err := openAt(unix.AT_FDCWD, "/proc/locks", unix.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer closeFile(fd)
	var text []byte
	buffer := make([]byte, listedAtOnce)
	for n, err := unix.Read(fd, buffer); n > 0 && err == nil; n, err = unix.Read(fd, buffer) {
		text = append(text, buffer[:n]...)
	}
	return string(text), nil
}

// lockOwners returns the fourth column of /proc/locks for the locks of files, of a kind and an access ("" for any). A
// list without any of these locks is read again.
func lockOwners(kind, access string, files []string) (owners []string) {
	for try := 0; try < listings && len(owners) == 0; try++ {
		text, err := listLocks()
		if err != nil {
			return nil
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line) // "1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF"
			if len(fields) > 5 && strings.HasPrefix(fields[1], kind) && strings.HasPrefix(fields[3], access) &&
				slices.Contains(files, fields[5]) {
				owners = append(owners, fields[4])
			}
		}
	}
	return owners
}

// lockedFile is how /proc/locks names a file.
func lockedFile(stat *unix.Stat_t) string {
	return fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
}
