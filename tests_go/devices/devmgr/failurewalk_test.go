package devmgr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// walk is a session in which driver call number n fails, once. Every step that fails is repeated.
type walk struct {
	t       *testing.T
	driver  *driver
	options config.Options
	failed  string // the method of the failed call; "" before
}

func newWalk(t *testing.T, spec string, opts simulated.Options, n int, result gpu.Result) *walk {
	w := &walk{t: t, driver: openDriver(t, spec, opts)}
	w.driver.SetFaults(func(c faults.Call) error {
		if c.Index != n {
			return nil
		}
		w.failed = c.Op
		return result
	})
	return w
}

// step runs a step that must succeed at the second attempt at the latest.
func (w *walk) step(name string, do func() error) {
	w.t.Helper()
	before := w.failed
	err := do()
	if err == nil {
		return
	}
	require.NotEqual(w.t, before, w.failed, "%s: no call was failed, but: %v", name, err)
	var kind *status.Error
	require.True(w.t, errors.As(err, &kind), "%s: an error without a kind: %v", name, err)
	require.NoError(w.t, do(), "%s: the second try, after: %v", name, err)
}

// session runs the whole life of a Manager. It returns how many driver calls it made.
func (w *walk) session(env config.Env) (calls int) {
	t, d := w.t, w.driver
	var m *devmgr.Manager
	w.step("list", func() (err error) {
		m, err = devmgr.New(d, env)
		return err
	})
	require.NoError(t, m.Configure(func(s *config.State) error { return s.Import(w.options) }))
	require.NoError(t, splitGPU(m, 0, 8, 16))
	w.step("initialize", func() error {
		err := must.Err(m.Initialize(env, "", nil))
		if err != nil && w.failed != "ContextRelease" {
			d.requireNothingLeft(t)
			require.False(t, isInitialized(m))
		}
		return err
	})
	require.Len(t, logicalNames(t, m), 4)

	blocks := make([]bfc.Block, 6)
	for i := range blocks {
		w.step(fmt.Sprint("allocate ", i), func() error {
			var err error
			blocks[i], err = m.Allocate(i%3, mib, 0)
			return err
		})
		require.NoError(t, m.Check())
	}
	sent, got := []byte("what was written"), make([]byte, 16)
	w.step("write", func() error { return m.CopyFromHost(blocks[1].Addr, blocks[1].ID, 100, sent) })
	w.step("read", func() error { return m.CopyToHost(blocks[1].Addr, blocks[1].ID, 100, got) })
	require.Equal(t, sent, got)
	for i, block := range blocks {
		w.step(fmt.Sprint("free ", i), func() error { return m.Free(block.Addr) })
		require.NoError(t, m.Check())
	}
	w.collect(m)
	return w.close(m)
}

// collect allocates what needs the free regions to be released first. Memory that the GPU refused to free stays
// counted.
func (w *walk) collect(m *devmgr.Manager) {
	bytes := 8 * mib
	w.step("collect", func() error {
		block, err := m.Allocate(0, bytes, 0)
		if err != nil {
			require.NoError(w.t, m.Check())
			if w.failed == "MemFree" {
				bytes = 2 * mib
			}
			return err
		}
		return m.FreeID(block.Addr, block.ID)
	})
}

// close ends the session. Only a context that the driver refused to release may stay.
func (w *walk) close(m *devmgr.Manager) (calls int) {
	t, d := w.t, w.driver
	before := w.failed
	w.step("close", func() error { return m.Close(false) })
	require.True(t, m.Closed())
	want := 0
	if w.failed == "ContextRelease" && before == "" {
		want = 1
	}
	allocations, retains := d.machine.Live()
	require.Zero(t, allocations)
	require.Equal(t, want, retains)
	calls = d.Calls()
	require.NoError(t, d.machine.Close())
	return calls
}

func TestWalkOfFailures(t *testing.T) {
	for _, result := range []gpu.Result{gpu.ErrorOutOfMemory, gpu.ErrorIllegalAddress} {
		for _, row := range []struct {
			name, growth string
			opts         simulated.Options
			options      config.Options
			memory       []string // the calls that allocate and free memory
		}{
			{"whole", "false", simulated.Options{}, config.Options{}, []string{"MemAlloc", "MemFree"}},
			{"doubling", "true", simulated.Options{NoVMM: true}, config.Options{}, []string{"MemAlloc", "MemFree"}},
			{"whole, unified", "false", simulated.Options{}, unified, []string{"MemAllocManaged", "MemFree"}},
			{"doubling, unified", "true", simulated.Options{}, unified, []string{"MemAllocManaged", "MemFree"}},
			{"in place", "true", simulated.Options{}, config.Options{}, []string{"MemGetAllocationGranularity",
				"MemAddressReserve", "MemCreate", "MemMap",
				"MemSetAccess", "MemUnmap", "MemRelease", "MemAddressFree"}},
		} {
			t.Run(fmt.Sprint(result, " ", row.name), func(t *testing.T) {
				env := config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": row.growth}
				failed := map[string]bool{}
				for n := 0; ; n++ {
					w := newWalk(t, "2xT4:1GiB", row.opts, n, result)
					w.options = row.options
					calls := w.session(env)
					failed[w.failed] = true
					if w.failed == "" {
						require.Equal(t, n, calls, "the walk ends behind the last call")
						break
					}
				}
				for _, op := range append(row.memory, "Devices", "ContextRetain", "MemGetInfo", "MemcpyHtoD",
					"MemcpyDtoH", "ContextRelease") {
					require.True(t, failed[op], "%s was never failed", op)
				}
			})
		}
	}
}

// After the driver is lost every operation fails, but Close works.
func TestDriverThatFailsForGood(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{100})
	block := allocate(t, m, 0, 1)
	d.SetFaults(faults.Seeded(1, 0, gpu.ErrorIllegalAddress))
	err := m.CopyFromHost(block.Addr, block.ID, 0, []byte{1})
	must.Fail(t, status.Unknown, err)
	require.EqualError(t, err, "copying 1 bytes at offset 0 on GPU:0: injected into MemcpyHtoD, call 3: "+
		"CUDA_ERROR_ILLEGAL_ADDRESS (700)")
	require.NoError(t, m.Free(block.Addr), "a free needs no driver")
	require.Error(t, m.Close(false))
	require.True(t, m.Closed())
	d.SetFaults()
	require.NoError(t, d.machine.ContextRelease(0))
}

// Allocations on all logical GPUs count, by number and by stream, and the one that fails has the whole report.
func TestAnInjectedFailure(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{8, 8}, []float64{8})
	stream := must.OK(d.machine.StreamCreate(0, 0, 0))(t)
	require.NoError(t, m.FailAllocation(4))
	must.OK(m.Allocate(0, 1000, 0))(t)
	must.OK(m.AllocateKnowing(0, 1, stream, 0, 1000, 0))(t)
	must.OK(m.Allocate(2, 1000, 0))(t)
	require.Equal(t, uint64(3), m.CountedAllocations())
	_, err := m.AllocateKnowing(1, -1, gpu.StreamNull, 0, 3*mib, 0)
	must.Fail(t, status.ResourceExhausted, err)
	require.Equal(t, "OOM when allocating 3.00MiB (3145728 bytes) on GPU:2: out of memory, an injected failure, which "+
		"a test requested.\n  limit 8.00MiB (8388608 bytes), in use 1.0KiB (1024 bytes) in 1 block, reserved 8.00MiB "+
		"(8388608 bytes), largest free block 8.00MiB (8387584 bytes)\n  in use by c, untagged: 1.0KiB (1024 bytes) in "+
		"1 block\n  on Tesla T4. The memory is not exhausted: the fixture gpu_oom_after or gpu_oom_each made this "+
		"allocation fail.", err.Error())
	require.True(t, bfc.IsInjected(err))
	require.Equal(t, uint64(4), m.CountedAllocations())
	for number := range 3 {
		must.OK(m.Allocate(number, 1000, 0))(t)
	}
	ooms := must.OK(m.MemoryTotals(2))(t).OOMs
	require.Equal(t, uint64(1), ooms)
}

// What is injected before the pools exist counts from their first allocation, and 0 ends it.
func TestAFailureIsInjectedBeforeInitialization(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := enumerated(t, d, config.Env{})
	require.NoError(t, m.FailAllocation(1))
	must.OK(m.Initialize(config.Env{}, "test", nil))(t)
	require.True(t, bfc.IsInjected(must.Err(m.Allocate(0, 1000, 0))))
	require.NoError(t, m.FailAllocation(2))
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.FailAllocation(0))
	for range 4 {
		must.OK(m.Allocate(0, 1000, 0))(t)
	}
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.Close(true))
	must.Fail(t, status.FailedPrecondition, m.FailAllocation(1))
}

// Allocations of a library with an allocator of its own count with those of the pools.
func TestAnInjectedFailureElsewhere(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	require.NoError(t, m.CountForeign(8))
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.FailAllocation(3))
	require.NoError(t, m.CountForeign(8))
	must.OK(m.Allocate(0, 1000, 0))(t)
	err := m.CountForeign(2 * mib)
	must.Fail(t, status.ResourceExhausted, err)
	require.Equal(t, "Tried to allocate 2.00MiB (2097152 bytes): out of memory, an injected failure, which a test "+
		"requested", err.Error())
	require.NoError(t, m.CountForeign(8))
	require.Equal(t, uint64(3), m.CountedAllocations())
}
