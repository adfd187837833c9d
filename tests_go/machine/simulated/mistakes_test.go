package simulated_test

import (
	"testing"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/drivertest"
	"gpuconf/tests_go/machine/simulated"
)

// A refused call changes nothing, and takes no memory.
func TestMistakes(t *testing.T) {
	drivertest.TestMistakes(t, func() (gpu.Driver, error) { return open("3xT4:64MiB:no-peers", simulated.Options{}) },
		func(driver gpu.Driver, _ bool) any {
			free, _, err := driver.MemGetInfo(0)
			attempt.Do(err)
			return []any{driver.(*simulated.Machine).Inventory(), free}
		})
}
