package sim_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/sim"
)

func TestGoroutinesShareAMachine(t *testing.T) {
	m := newMachine(t, "4xT4:256MiB", sim.Options{})
	injector := sim.NewInjector(m, sim.Seeded(0.05, 7, gpu.ErrorOutOfMemory))
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for range 50 {
				_ = useDevice(injector, worker%4)
				_, _ = m.Devices()
				_, _ = m.Live()
			}
		})
	}
	group.Wait()
	for ordinal := range 4 {
		for m.ContextRelease(ordinal) == nil { // what an injected failure left
		}
	}
	allocations, retains := m.Live()
	require.Equal(t, []int{0, 0}, []int{allocations, retains})
}

// TestCloseWaitsForCopies closes a machine in the midst of copies. Each copy is whole or refused; none meets unmapped memory.
func TestCloseWaitsForCopies(t *testing.T) {
	for range 20 {
		m := retained(t, "T4", sim.Options{})
		addr := alloc(t, m, 4*mib)
		var group sync.WaitGroup
		started := make(chan struct{}, 4)
		for range 4 {
			group.Go(func() {
				data := make([]byte, 4*mib)
				for first := true; ; first = false {
					err := errors.Join(m.MemsetD8(0, addr, 1, 4*mib), m.MemcpyDtoH(0, data, addr), m.MemcpyHtoD(0, addr, data))
					if first {
						started <- struct{}{}
					}
					if err != nil {
						if !errors.Is(err, gpu.ErrorDeinitialized) {
							t.Errorf("a copy failed with %v", err)
						}
						return
					}
				}
			})
		}
		<-started
		require.NoError(t, m.Close())
		group.Wait()
	}
}

func TestCloseFromManyGoroutines(t *testing.T) {
	m := retained(t, "2xT4", sim.Options{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
