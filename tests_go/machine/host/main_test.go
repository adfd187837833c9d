package host_test

import (
	"testing"

	"gpuconf/tests_go/machine/simulated"
)

// gonum computes products of large matrices on several goroutines.
func TestMain(m *testing.M) { simulated.Main(m) }
