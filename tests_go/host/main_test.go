package host_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Products of large matrices run on goroutines of gonum's.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
