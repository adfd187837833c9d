// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// lockers names the processes that hold read locks of files, as far as the kernel lists them: open-file-description
// locks have no process there. gpuconf takes none, so they only keep the owner from using the files.
func lockers(files []*slotFile) string {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	var owners []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // "1: POSIX  ADVISORY  READ 4711 fe:00:1234 0 EOF"
		if len(fields) < 6 || fields[3] != "READ" ||
			!slices.ContainsFunc(files, func(f *slotFile) bool { return fields[5] == lockedFile(&f.stat) }) {
			continue
		}
		who := "process " + fields[4]
		if fields[4] == "-1" || fields[4] == "0" { // 0: of another PID namespace
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

// lockedFile is how /proc/locks names a file.
func lockedFile(stat *unix.Stat_t) string {
	return fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
}
