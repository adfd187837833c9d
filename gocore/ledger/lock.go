// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/status"
)

// grantLock is the lock under which grants are decided: the flock of the header file. It is held for microseconds.
type grantLock struct{ fd int }

// ErrBusy is wrapped by the errors of calls that did not get the grant lock in time. The caller may try again.
var ErrBusy = status.Errorf(status.Unavailable, "the ledger is locked")

// longestSleep is the pause between two attempts to take the lock, in nanoseconds. A hundred processes that try more often would keep the
// holder from running.
const longestSleep = 4_000_000

// lock takes the grant lock. The file is opened for each use: a forked child then has a copy of the open file, which would keep the
// lock if this process dies, only if the fork falls into these microseconds.
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
	for sleep := int64(10_000); ; sleep = min(2*sleep, longestSleep) {
		got, err := tryFlock(fd)
		if got {
			return grantLock{fd}, nil
		}
		if err != nil || now() > deadline {
			holder := lockHolder(fd)
			closeFile(fd)
			if err != nil {
				return grantLock{}, l.problem(err, headerName, "cannot lock")
			}
			return grantLock{}, status.Errorf(status.Unavailable, "%w: %s holds the lock of %s/%s. It should last microseconds; if that process is "+
				"stopped, continue or end it", ErrBusy, holder, l.folder, headerName)
		}
		pause(sleep)
	}
}

// unlock ends the lock also for a forked child that has a copy of the open file. A child never unlocks: it cannot run this code.
func (g grantLock) unlock() {
	about("unlock")
	_ = unix.Flock(g.fd, unix.LOCK_UN) // cannot fail for a lock that is held; the close below ends it too
	closeFile(g.fd)
}

// lockHolder finds the process that holds the flock of an open file.
func lockHolder(fd int) string {
	const unknown = "another process"
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil {
		return unknown
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return unknown
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line) // "1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF"
		if len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == file {
			if pid, err := strconv.Atoi(fields[4]); err == nil && pid > 0 {
				return fmt.Sprintf("process %d", pid)
			}
		}
	}
	return unknown
}

// sameHeader refuses a ledger whose folder was removed or replaced since it was opened: others would use another one.
func (l *Ledger) sameHeader(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return l.problem(err, headerName, "cannot read")
	}
	if stat.Ino != l.header.Ino || stat.Dev != l.header.Dev || stat.Nlink == 0 {
		return status.Errorf(status.FailedPrecondition, "%s/%s was replaced while it was in use. Restart the programs that use this ledger", l.folder, headerName)
	}
	return nil
}
