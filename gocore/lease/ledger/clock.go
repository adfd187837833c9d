// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// now is the time since boot in nanoseconds. Setting the clock does not change it, and it is the same in all processes,
// also of other time namespaces.
func now() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // cannot fail: the clock exists
	return uint64(ts.Nano() - 1e9*bootOffset())
}

// bootOffset is by how many seconds this process's time namespace shifts the time since boot, also in the start times
// of /proc.
var bootOffset = sync.OnceValue(func() (seconds int64) {
	text, _ := os.ReadFile("/proc/self/timens_offsets") // none: the kernel has no time namespaces
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "boottime %d", &seconds); err == nil {
			return seconds
		}
	}
	return 0
})

const ticksPerSecond = 100 // of the times in /proc, on every architecture
