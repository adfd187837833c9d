package host_test

import (
	"testing"

	"go.uber.org/goleak"
)

// gonum computes products of large matrices on several goroutines.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
