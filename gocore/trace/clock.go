package trace

import (
	"os"
	"strings"
	"time"
)

// clock tells the time in ticks of whatever is cheapest to read, and what they mean once it has stopped.
type clock struct {
	counts bool      // ticks are the processor's; otherwise nanoseconds since base
	base   time.Time // with Go's reading of the monotonic clock
	began  int64     // microseconds since 1970, at base
	first  uint64    // ticks at base

	span  uint64        // ticks from base to stop
	lasts time.Duration // the same in time
}

// newClock starts a clock. The processor's counter serves if the kernel itself goes by it: it runs evenly then, and alike on all cores.
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

// now is for one user at a time to be in order.
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

// micros is the time of a tick before the stop.
func (c *clock) micros(ticks uint64) int64 {
	// A float's 53 bits are more than a counter of gigahertz needs for the microseconds of a month.
	return c.began + int64(float64(ticks-c.first)/float64(c.span)*float64(c.lasts)/float64(time.Microsecond))
}
