package simulated_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/simulated"
)

// childEnv names a job to run in a separate process instead of the tests.
const childEnv = "GPUCONF_SIMULATED_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		simulated.Main(m)
	case "addresses":
		fmt.Print(addressScript())
	case "address space limit":
		fmt.Print(addressSpaceLimit())
	}
}

// addressScript is a session on a mixed machine; it returns every address that a user could see.
func addressScript() string {
	spec := attempt.Get(models.ParseSpec("2xH100-80GB,T4:1GiB"))
	m := attempt.Get(simulated.New(spec, simulated.Options{}))
	defer func() { attempt.Do(m.Close()) }()
	var out strings.Builder
	var live [3][]uint64
	for step := range 300 {
		ordinal := step % 3
		if step < 3 {
			attempt.Do(m.ContextRetain(ordinal))
		}
		if step%4 == 3 {
			addr := live[ordinal][len(live[ordinal])/2]
			live[ordinal] = append(live[ordinal][:len(live[ordinal])/2], live[ordinal][len(live[ordinal])/2+1:]...)
			attempt.Do(m.MemFree(ordinal, addr))
			continue
		}
		addr := attempt.Get(m.MemAlloc(ordinal, uint64(step*step*37+1)))
		live[ordinal] = append(live[ordinal], addr)
		free, total, err := m.MemGetInfo(ordinal)
		attempt.Do(err)
		fmt.Fprintln(&out, ordinal, addr, free, total)
		if step%7 == 0 {
			fmt.Fprintln(&out, virtualScript(m, ordinal, step))
		}
	}
	return out.String()
}

// virtualScript leaves something behind after each call, with gaps.
func virtualScript(m *simulated.Machine, ordinal, step int) string {
	size := uint64(step+1) << 21
	first := attempt.Get(m.MemAddressReserve(size, 0))
	second := attempt.Get(m.MemAddressReserve(size, 1<<(20+step%20)))
	attempt.Do(m.MemAddressFree(first, size))
	handle := attempt.Get(m.MemCreate(ordinal, 2<<20))
	attempt.Do(m.MemMap(second, 2<<20, handle))
	host := attempt.Get(m.MemHostAlloc(ordinal, size))
	stream := attempt.Get(m.StreamCreate(ordinal, gpu.StreamNonBlocking, 0))
	id := attempt.Get(m.StreamGetID(ordinal, stream))
	return fmt.Sprint(first, second, host.Addr, id)
}

// addressSpaceLimit runs under a limit on address space (ulimit -v). It returns what went wrong, or nothing.
func addressSpaceLimit() string {
	text := attempt.Get(os.ReadFile("/proc/self/statm"))
	var pages uint64
	attempt.Get(fmt.Sscan(string(text), &pages))
	limit := pages*uint64(os.Getpagesize()) + 5<<30
	attempt.Do(unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}))

	small, _ := models.ParseSpec("T4:1GiB")
	before := openAndAllocate(small)
	for _, text := range []string{"H100-80GB", "4xT4:1GiB"} { // the first card is refused; the third is
		spec, _ := models.ParseSpec(text)
		m, err := simulated.New(spec, simulated.Options{})
		switch {
		case err == nil:
			return text + " was not refused"
		case m != nil:
			return text + " was refused and opened"
		case status.CodeOf(err) != status.ResourceExhausted:
			return "wrong kind: " + err.Error()
		case !strings.Contains(err.Error(), "ulimit -v") || !strings.Contains(err.Error(), "GiB of address space"):
			return "unclear: " + err.Error()
		}
	}
	if after := openAndAllocate(small); after != before {
		return fmt.Sprintf("a refused machine left something behind: %#x, then %#x", before, after)
	}
	return ""
}

func openAndAllocate(spec models.Spec) uint64 {
	m := attempt.Get(simulated.New(spec, simulated.Options{}))
	defer func() { attempt.Do(m.Close()) }()
	attempt.Do(m.ContextRetain(0))
	return attempt.Get(m.MemAlloc(0, 1<<20))
}
