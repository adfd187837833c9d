// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Process is the identity of a process. A later process with the same PID has another start time.
type Process struct {
	PID int `py:"pid"` // in its PID namespace
	// When the process started, in clock ticks since boot: field 22 of /proc/PID/stat, without the shift of a time
	// namespace; 0 if unknown.
	Start     uint64 `py:"start_time"`
	Namespace uint64 `py:"-"` // the inode number of its PID namespace; 0 if unknown
}

// Self returns this process.
func Self() Process {
	p := Process{PID: os.Getpid(), Namespace: ownNamespace()}
	p.Start, _ = startOf("self")
	return p
}

// OwnCommand returns this process's command line.
func OwnCommand() string {
	text, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return ""
	}
	return Clean(string(bytes.TrimRight(bytes.ReplaceAll(text, []byte{0}, []byte{' '}), " ")), CommandText)
}

func ownNamespace() uint64 {
	var stat unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &stat) != nil {
		return 0
	}
	return stat.Ino
}

// startOf returns a process's start time.
func startOf(pid string) (start uint64, ok bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name in parentheses may contain anything
	if len(fields) < 20 {
		return 0, false
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	return uint64(ticks - ticksPerSecond*bootOffset()), err == nil
}

// IsGone reports whether a process of this PID namespace has ended.
func (p Process) IsGone() bool {
	if errors.Is(unix.Kill(p.PID, 0), unix.ESRCH) {
		return true
	}
	start, ok := startOf(fmt.Sprint(p.PID))
	// With another start time, it is another process with the same PID. If the start time cannot be read, the process
	// belongs to another user.
	return ok && p.Start != 0 && start != p.Start
}
