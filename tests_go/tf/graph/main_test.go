package graph_test

import (
	"testing"

	"gpuconf/tests_go/machine/simulated"
)

func TestMain(m *testing.M) { simulated.Main(m) }
