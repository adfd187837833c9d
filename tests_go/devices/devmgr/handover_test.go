package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/devices/handover"
	"gpuconf/tests_go/machine/simulated"
)

// inSteps runs a test on a machine that executes its work step by step.
func inSteps(t *testing.T, opts simulated.Options, test func(*testing.T, *simulated.Machine)) {
	opts.Stepped = true
	d := newDriver(t, "T4:1GiB", opts)
	test(t, d.machine)
	d.requireNothingLeft(t)
}

// small reports whether a program has few interleavings.
func small(program handover.Program) bool {
	return len(program.Streams) == 2 && len(program.Threads[0]) < 5
}

// Every interleaving of small programs' calls and of the device's progress, with both ways to track that progress. Only
// one goroutine runs at a time, and each new goroutine is expensive under the race detector, so there only the smallest
// programs run.
func TestEveryHandOver(t *testing.T) {
	for name, opts := range map[string]simulated.Options{"words": {}, "events": {NoStreamMemOps: true}} {
		t.Run(name, func(t *testing.T) {
			inSteps(t, opts, func(t *testing.T, machine *simulated.Machine) {
				all := 0
				for _, program := range handover.Programs() {
					if underRace && !small(program) {
						continue
					}
					runs := handover.Exhaust(t, machine, program, handover.How{})
					require.Greater(t, runs, 50, program.Name)
					t.Logf("%7d interleavings: %s", runs, program.Name)
					all += runs
				}
				t.Logf("%7d interleavings in all", all)
			})
		})
	}
}

// The same on a pool that only one stream has used so far, and the smallest program with all interleavings.
func TestEveryFirstHandOver(t *testing.T) {
	inSteps(t, simulated.Options{}, func(t *testing.T, machine *simulated.Machine) {
		for _, program := range handover.Programs() {
			if small(program) {
				runs := handover.Exhaust(t, machine, program, handover.How{Fresh: true})
				t.Logf("%7d interleavings: %s", runs, program.Name)
			}
		}
		if underRace {
			return
		}
		least := handover.Programs()[0]
		runs := handover.Exhaust(t, machine, least, handover.How{Plain: true})
		require.Greater(t, runs, 10_000)
		t.Logf("%7d interleavings, none left out: %s", runs, least.Name)
	})
}
