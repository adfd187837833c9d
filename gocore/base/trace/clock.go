// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"os"
	"strings"
	"time"
)

// clock reads the time in ticks of the cheapest source, and converts ticks to time once it has stopped.
type clock struct {
	counts bool      // ticks are those of the processor's counter; otherwise nanoseconds since base
	base   time.Time // with Go's reading of the monotonic clock
	began  int64     // microseconds since 1970, at base
	first  uint64    // ticks at base

	span  uint64        // ticks from base to stop
	lasts time.Duration // the same span as a duration
}

// newClock starts a clock. It uses the processor's counter if the kernel uses it too: the counter then runs evenly,
// and alike on all cores.
func newClock() *clock {
	c := &clock{counts: counterIsSteady()}
	c.base = time.Now()
	c.began = c.base.UnixMicro()
	if c.counts {
		c.first = counter()
	}
	return c
}

func counterIsSteady() bool {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(source)) == steadyClocksource
}

// now returns the current tick. Ticks are in order only if callers take turns, under a lock.
func (c *clock) now() uint64 {
	if c.counts {
		return counter()
	}
	return uint64(time.Since(c.base))
}

func (c *clock) stop() {
	c.span = max(c.now()-c.first, 1)
	c.lasts = time.Since(c.base)
}

// micros returns the time of a tick before the stop, in microseconds since 1970.
func (c *clock) micros(ticks uint64) int64 {
	// A float64's 53 bits suffice for microsecond resolution over a month of a gigahertz counter.
	return c.began + int64(float64(ticks-c.first)/float64(c.span)*float64(c.lasts)/float64(time.Microsecond))
}
