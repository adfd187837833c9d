package devmgr_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/sim"
	"gpuconf/tests_go/handover"
	"gpuconf/tests_go/stepping"
)

// stepped is a machine whose work a test executes step by step.
type stepped struct {
	*sim.Machine
	*stepping.Steps
}

// inSteps runs a test on a machine that executes its work step by step.
func inSteps(t *testing.T, opts sim.Options, test func(*testing.T, stepped)) {
	synctest.Test(t, func(t *testing.T) {
		steps := &stepping.Steps{}
		opts.BeforeWork = steps.Hold
		d := newDriver(t, "T4:1GiB", opts)
		t.Cleanup(steps.End)
		test(t, stepped{d.machine, steps})
		d.requireNothingLeft(t)
	})
}

// small reports whether a program has few interleavings.
func small(program handover.Program) bool {
	return len(program.Streams) == 2 && len(program.Threads[0]) < 5
}

// Every interleaving of small programs' calls and of the device's progress, with both ways to track that progress. Only one
// goroutine runs at a time, and each new goroutine is expensive under the race detector, so there only the smallest programs run.
func TestEveryHandOver(t *testing.T) {
	for name, opts := range map[string]sim.Options{"words": {}, "events": {NoStreamMemOps: true}} {
		t.Run(name, func(t *testing.T) {
			inSteps(t, opts, func(t *testing.T, machine stepped) {
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
	inSteps(t, sim.Options{}, func(t *testing.T, machine stepped) {
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
