package turns_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/lease/ledger"
)

// number returns a number of the environment, or another one.
func number(name string, other uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return other
}

// Two to ten jobs on one or two cards, for two hours of their clock. In every second schedule all goes well and waits
// have their bound; in the others calls fail, programs are killed or cannot be parked, and the host's memory is short.
// SCHEDULES says how many, and SEED which.
func TestRandomSchedulesKeepTheInvariants(t *testing.T) {
	type sums struct {
		waited, working, swapped, turned time.Duration
		parks                            int
	}
	const workers = 4
	many := number("SCHEDULES", 200)
	first := number("SEED", 0) * many
	parts, failed := make([]sums, workers), make([]error, workers)
	var group sync.WaitGroup
	for part := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			for seed := first + uint64(part); seed < first+many && failed[part] == nil; seed += workers {
				s := newSchedule(seed, func(host uint64) leases { return newInMemory(host) })
				if err := s.run(2 * time.Hour); err != nil {
					failed[part] = fmt.Errorf("seed %d: %w", seed, err)
				}
				p := &parts[part]
				p.parks, p.swapped, p.turned = p.parks+s.parks, p.swapped+s.swapped, p.turned+s.turned
				if seed%4 == 0 { // all want to run, all the time
					p.waited, p.working = p.waited+s.waited, p.working+s.working
				}
			}
		}()
	}
	group.Wait()
	var all sums
	for part, p := range parts {
		require.NoError(t, failed[part])
		all = sums{all.waited + p.waited, all.working + p.working, all.swapped + p.swapped, all.turned + p.turned,
			all.parks + p.parks}
	}
	swapping := float64(all.swapped) / float64(all.swapped+all.turned)
	occupied := float64(all.working) / float64(all.waited)
	t.Logf("%d schedules, %d parks: %.2f %% of the time in swaps, %.2f %% occupied while somebody waits",
		many, all.parks, 100*swapping, 100*occupied)
	require.Greater(t, all.parks, 10)
	require.LessOrEqual(t, swapping, 0.10)
	require.GreaterOrEqual(t, occupied, 0.89)
}

// The same schedules do the same with the real ledger.
func TestTheRealLedgerDecidesTheSame(t *testing.T) {
	for seed := range uint64(2) {
		s := newSchedule(seed, func(host uint64) leases { return newInMemory(host) })
		require.NoError(t, s.run(30*time.Minute), "seed %d", seed)
		l, err := ledger.Open(t.TempDir()+"/ledger", true)
		require.NoError(t, err)
		r := newSchedule(seed, func(host uint64) leases { return &inLedger{ledger: l, host: host} })
		require.NoError(t, r.run(30*time.Minute), "seed %d", seed)
		for i, j := range s.jobs {
			other := r.jobs[i]
			require.Equal(t, []any{j.state, j.since, j.ran, j.held},
				[]any{other.state, other.since, other.ran, other.held}, "seed %d, %s", seed, j.name)
		}
		for _, j := range r.jobs {
			require.NoError(t, r.ledger.release(j))
		}
		require.NoError(t, l.Close())
	}
}
