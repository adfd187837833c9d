//go:build invariants

package invariants_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/invariants"
)

func TestTheTagTurnsChecksOn(t *testing.T) { require.True(t, invariants.Enabled) }
