//go:build !invariants

package invariants_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/invariants"
)

func TestWithoutTheTagChecksAreOff(t *testing.T) { require.False(t, invariants.Enabled) }

// TestAGuardedCheckCostsNothing counts the allocations of a guarded check, whose arguments allocate when they are
// computed.
func TestAGuardedCheckCostsNothing(t *testing.T) {
	costly := func() []byte {
		t.Error("the arguments of a check were computed")
		return make([]byte, 1<<20)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if invariants.Enabled {
			invariants.Check(len(costly()) == 0, "%v", costly())
		}
	}))
}
