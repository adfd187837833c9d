package devmgr_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestCloseIsRefusedWhileBlocksAreLive(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{100, 100})
	a, b := allocate(t, m, 0, 1), allocate(t, m, 2, 3*mib)
	c := allocate(t, m, 2, 1)
	before := []any{stats(t, m, "GPU:0"), stats(t, m, "GPU:2"), d.Calls()}
	err := m.Close(false)
	must.Fail(t, status.FailedPrecondition, err)
	require.EqualError(t, err, "memory is still in use: 1 block on GPU:0 (256B), 2 blocks on GPU:2 (3.00MiB). Free "+
		"it first")
	require.False(t, m.Closed())
	require.Equal(t, before, []any{stats(t, m, "GPU:0"), stats(t, m, "GPU:2"), d.Calls()}, "nothing has changed")
	for _, block := range []uint64{a.Addr, b.Addr, c.Addr} {
		require.NoError(t, m.Free(block))
	}
	require.NoError(t, m.Close(false))
	require.True(t, m.Closed())
	d.requireNothingLeft(t)
	require.Equal(t, 1, d.closes)
	require.NoError(t, m.Close(false), "a second Close does nothing")
	require.Equal(t, 1, d.closes)
}

func TestForcedCloseGivesEverythingBack(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
		[]float64{100, 100})
	for i := range 30 {
		allocate(t, m, i%3, uint64(i)*mib/4)
	}
	require.NoError(t, m.Close(true))
	d.requireNothingLeft(t)
}

func TestCloseBeforeInitialize(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := must.OK(devmgr.New(d, nil))(t)
	require.NoError(t, m.Close(false))
	require.Equal(t, 1, d.closes)
	must.Fail(t, status.FailedPrecondition, m.Initialize(nil, ""))
	require.False(t, isInitialized(m))
}

// A machine that returns errors while it closes is closed anyway, and no error is lost.
func TestCloseGoesOnWhereTheDriverFails(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{100, 100})
	allocate(t, m, 0, 1)
	allocate(t, m, 1, 1)
	frees, releases := d.CallsOf()["MemFree"], d.CallsOf()["ContextRelease"]
	d.SetFaults(faults.OnOp("MemFree", frees, gpu.ErrorIllegalAddress), faults.OnOp("ContextRelease", releases+1,
		gpu.ErrorNotPermitted))
	d.closeErr = gpu.ErrorUnknown
	err := m.Close(true)
	must.Fail(t, status.Internal, err)
	for _, said := range []gpu.Result{gpu.ErrorIllegalAddress, gpu.ErrorNotPermitted, gpu.ErrorUnknown} {
		require.ErrorIs(t, err, said)
	}
	require.True(t, m.Closed())
	allocations, retains := d.machine.Live()
	require.Equal(t, []int{1, 1}, []int{allocations, retains}, "only what the driver itself refused")
	require.NoError(t, d.machine.ContextRelease(0))
	require.NoError(t, m.Close(true))
}

func TestCloseErrorsHaveAKind(t *testing.T) {
	for _, row := range []struct {
		op   string
		text string
	}{
		{"ContextRelease", "GPU:0: cannot release the context on Tesla T4"},
		{"Close", "cannot shut down the GPU driver"},
	} {
		t.Run(row.op, func(t *testing.T) {
			d := newDriver(t, "T4", simulated.Options{})
			m := must.OK(devmgr.New(d, nil))(t)
			require.NoError(t, m.Initialize(nil, ""))
			d.SetFaults(faults.OnOp(row.op, 0, gpu.ErrorNotPermitted))
			if row.op == "Close" {
				d.closeErr = gpu.ErrorNotPermitted
			}
			err := m.Close(false)
			var kind *status.Error
			require.True(t, errors.As(err, &kind), "an error without a kind: %v", err)
			require.ErrorContains(t, err, row.text)
			require.ErrorIs(t, err, gpu.ErrorNotPermitted)
		})
	}
}

func TestEveryCallOfAClosedManagerFails(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil)
	block := allocate(t, m, 0, 1)
	peak, _ := must.OK2(m.StartPeak(0))(t)
	require.NoError(t, m.Close(true))
	for name, call := range map[string]func() error{
		"Configure":        func() error { return m.Configure(func(*config.State) error { panic("called") }) },
		"Inspect":          func() error { return m.Inspect(func(*config.State) error { panic("called") }) },
		"Initialize":       func() error { return m.Initialize(nil, "") },
		"LogicalDevices":   func() error { _, err := m.LogicalDevices(); return err },
		"AllocateOn":       func() error { _, err := m.AllocateOn(0, 0, 0, 1, 0); return err },
		"LimitBytes":       func() error { _, err := m.LimitBytes(0); return err },
		"Allocate":         func() error { _, err := m.Allocate(0, 1); return err },
		"Allocate nothing": func() error { _, err := m.Allocate(0, 0); return err },
		"Free":             func() error { return m.Free(block.Addr) },
		"Free nothing":     func() error { return m.Free(0) },
		"FreeID":           func() error { return m.FreeID(block.Addr, block.ID) },
		"FreeID nothing":   func() error { return m.FreeID(0, 0) },
		"Frees":            func() error { _, err := m.Frees(0); return err },
		"WaitForFree":      func() error { return m.WaitForFree(0, 0, time.Hour) },
		"CopyFromHost":     func() error { return m.CopyFromHost(block.Addr, block.ID, 0, []byte{1}) },
		"CopyToHost":       func() error { return m.CopyToHost(block.Addr, block.ID, 0, []byte{1}) },
		"ResolveGPU":       func() error { _, err := m.ResolveGPU("GPU:0"); return err },
		"MemoryInfo":       func() error { _, _, err := m.MemoryInfo("GPU:0"); return err },
		"MemoryStats":      func() error { _, err := m.MemoryStats("GPU:0"); return err },
		"ResetMemoryStats": func() error { return m.ResetMemoryStats("GPU:0") },
		"MemoryMap":        func() error { _, err := m.MemoryMap("GPU:0"); return err },
		"StartPeak":        func() error { _, _, err := m.StartPeak(0); return err },
		"StopPeak":         func() error { _, err := m.StopPeak(0, peak); return err },
		"Check":            m.Check,
		"StreamOf":         func() error { _, err := m.StreamOf(0); return err },
		"RecordStream":     func() error { return m.RecordStream(block.Addr, 3) },
		"Region":           func() error { _, _, err := m.Region(block.Addr); return err },
		"Trim":             func() error { _, err := m.Trim(); return err },
		"RequireFraction":  func() error { return m.RequireFraction(0, 1) },
	} {
		t.Run(name, func(t *testing.T) { must.Fail(t, status.FailedPrecondition, call()) })
	}
	require.False(t, isInitialized(m))
	require.Zero(t, m.LogicalGPUs())
}

// Before the logical devices exist, the error says what to call first, not that there is no GPU.
func TestCallsBeforeInitialize(t *testing.T) {
	m := enumerated(t, newDriver(t, "T4", simulated.Options{}), nil)
	for name, call := range map[string]func() error{
		"Allocate":    func() error { _, err := m.Allocate(0, 1); return err },
		"WaitForFree": func() error { return m.WaitForFree(0, 0, time.Hour) },
		"ResolveGPU":  func() error { _, err := m.ResolveGPU("GPU:0"); return err },
		"MemoryInfo":  func() error { _, _, err := m.MemoryInfo("GPU:0"); return err },
		"StartPeak":   func() error { _, _, err := m.StartPeak(0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			must.Fail(t, status.FailedPrecondition, call(), "not initialized yet")
		})
	}
	require.Empty(t, logicalNames(t, m))
	must.Fail(t, status.InvalidArgument, must.Err(m.AllocateOn(0, -1, 0, 1, 0)))
	must.Fail(t, status.InvalidArgument, m.Free(256))
	require.NoError(t, m.Check())
}
