//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

// TestManyDriversAtOnce: each goroutine has its own driver over the one library.
func TestManyDriversAtOnce(t *testing.T) {
	configure(t, nil)
	var group sync.WaitGroup
	failures := make(chan error, 8)
	for range 8 {
		group.Go(func() {
			for range 3 {
				if err := use((*session).useMemory, (*session).useVirtualMemory, (*session).useStreams); err != nil {
					failures <- err
				}
			}
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
}

// TestContextsComeAndGoUnderUse: a goroutine that uses a device while others retain and release it is served, or gets
// the error that there is no context.
func TestContextsComeAndGoUnderUse(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_GPUS": "2"})
	driver := open(t)
	var group sync.WaitGroup
	failures := make(chan error, 64)
	for worker := range 8 {
		group.Go(func() {
			ordinal := worker % 2
			for range 40 {
				if worker < 4 {
					failures <- errors.Join(driver.ContextRetain(ordinal), driver.ContextRelease(ordinal))
					continue
				}
				err := useShortly(driver, ordinal)
				if errors.Is(err, gpu.ErrorInvalidContext) || errors.Is(err, gpu.ErrorInvalidValue) {
					err = nil // the context ended, and the memory with it
				}
				failures <- err
			}
		})
	}
	go func() {
		group.Wait()
		close(failures)
	}()
	for err := range failures {
		require.NoError(t, err)
	}
	require.Empty(t, fake.Live())
}

func useShortly(driver gpu.Driver, ordinal int) (err error) {
	defer attempt.Catch(&err)
	addr := attempt.Get(driver.MemAlloc(ordinal, 4096))
	attempt.Do(driver.MemsetD8(ordinal, addr, 1, 4096))
	return driver.MemFree(ordinal, addr)
}

// TestCloseUnderUse: Close waits for calls in progress, and later calls return an error.
func TestCloseUnderUse(t *testing.T) {
	configure(t, nil)
	for round := range 20 {
		driver := attempt.Get(cuda.Open())
		require.NoError(t, driver.ContextRetain(0))
		var group sync.WaitGroup
		failures := make(chan error, 5)
		for range 4 {
			group.Go(func() {
				for {
					err := useShortly(driver, 0)
					if err == nil {
						_, err = driver.MemAddressReserve(2*mib, 0)
					}
					if err != nil {
						failures <- err
						return
					}
				}
			})
		}
		group.Go(func() {
			if err := driver.Close(); err != nil {
				failures <- fmt.Errorf("close in round %d: %w", round, err)
			}
		})
		group.Wait()
		close(failures)
		for err := range failures {
			require.ErrorIs(t, err, gpu.ErrorDeinitialized)
		}
		require.Empty(t, fake.Live())
	}
}

// TestWaitersDoNotHoldOthersUp: a thread that waits for a stream does not block others, one of which releases the
// stream.
func TestWaitersDoNotHoldOthersUp(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	waiting := attempt.Get(driver.StreamCreate(0, gpu.StreamNonBlocking, 0))
	writing := attempt.Get(driver.StreamCreate(0, gpu.StreamNonBlocking, 0))
	word := attempt.Get(driver.MemHostAlloc(0, 8))
	require.NoError(t, driver.StreamWaitValue64(0, waiting, word.Addr, 1))
	done := make(chan error)
	go func() { done <- driver.StreamSynchronize(0, waiting) }()
	require.NoError(t, driver.ContextRetain(0))
	require.NoError(t, driver.ContextRelease(0))
	require.False(t, attempt.Get(driver.StreamQuery(0, waiting)))
	require.NoError(t, driver.StreamWriteValue64(0, writing, word.Addr, 1))
	require.NoError(t, <-done)
}
