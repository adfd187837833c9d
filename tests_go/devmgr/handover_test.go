package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/sim"
	"gpuconf/tests_go/handover"
)

// Every interleaving of small programs' calls and of the device's progress, with both ways to know how far the device is.
func TestEveryHandOver(t *testing.T) {
	for name, opts := range map[string]sim.Options{"words": {Stepped: true}, "events": {Stepped: true, NoStreamMemOps: true}} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, "T4:1GiB", opts)
			all := 0
			for _, program := range handover.Programs() {
				if underRace && len(program.Streams) > 2 {
					continue
				}
				runs := handover.Exhaust(t, d.machine, program, handover.How{})
				require.Greater(t, runs, 50, program.Name)
				t.Logf("%7d interleavings: %s", runs, program.Name)
				all += runs
			}
			t.Logf("%7d interleavings in all", all)
			d.requireNothingLeft(t)
		})
	}
}

// The same on a pool that only one stream has used so far, and the least program with nothing left out.
func TestEveryFirstHandOver(t *testing.T) {
	d := newDriver(t, "T4:1GiB", sim.Options{Stepped: true})
	for _, program := range handover.Programs() {
		if len(program.Streams) == 2 && len(program.Threads[0]) < 5 {
			runs := handover.Exhaust(t, d.machine, program, handover.How{Fresh: true})
			t.Logf("%7d interleavings: %s", runs, program.Name)
		}
	}
	least := handover.Programs()[0]
	runs := handover.Exhaust(t, d.machine, least, handover.How{Plain: true})
	require.Greater(t, runs, 10_000)
	t.Logf("%7d interleavings, none left out: %s", runs, least.Name)
	d.requireNothingLeft(t)
}
