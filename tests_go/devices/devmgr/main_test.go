package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

const (
	kib = uint64(1) << 10
	mib = uint64(1) << 20
	gib = uint64(1) << 30
)

func TestMain(m *testing.M) { simulated.Main(m) }

// driver is a simulated machine behind a fault injector. Its Close only counts: the machine stays open, so that Live
// reports what a Manager has left behind.
type driver struct {
	*faults.Injector
	machine  *simulated.Machine
	closes   int
	closeErr error

	beforeMemAlloc func() // nil: nothing
}

func (d *driver) MemAlloc(ordinal int, bytes uint64) (uint64, error) {
	if d.beforeMemAlloc != nil {
		d.beforeMemAlloc()
	}
	return d.Injector.MemAlloc(ordinal, bytes)
}

func (d *driver) Close() error {
	d.closes++
	return d.closeErr
}

// newDriver opens a machine until the test ends.
func newDriver(t testing.TB, spec string, opts simulated.Options) *driver {
	d := openDriver(t, spec, opts)
	t.Cleanup(func() { require.NoError(t, d.machine.Close()) })
	return d
}

// openDriver opens a machine that the caller closes.
func openDriver(t require.TestingT, spec string, opts simulated.Options) *driver {
	parsed := must.OK(models.ParseSpec(spec))(t)
	machine := must.OK(simulated.New(parsed, opts))(t)
	return &driver{Injector: faults.NewInjector(machine), machine: machine}
}

// requireNothingLeft checks that a machine has no live memory and no context.
func (d *driver) requireNothingLeft(t require.TestingT) {
	require.Zero(t, d.machine.Inventory(), "left behind")
}

// taken returns how much of a card's memory the driver has allocated.
func (d *driver) taken(t require.TestingT, ordinal int) uint64 {
	free, total := must.OK2(d.machine.MemGetInfo(ordinal))(t)
	return total - free
}

// enumerated lists the devices of a machine. When the test ends, the Manager's accounting must be right, and nothing
// may be left behind.
func enumerated(t testing.TB, d *driver, env config.Env) *devmgr.Manager {
	m := must.OK(devmgr.New(d, env))(t)
	t.Cleanup(func() {
		if err := m.Check(); status.CodeOf(err) != status.FailedPrecondition { // as of one that the test has closed
			require.NoError(t, err)
		}
		require.NoError(t, m.Close(true))
		d.requireNothingLeft(t)
	})
	return m
}

// initialized returns an initialized Manager on its own machine. split has the limits in MiB of each GPU's logical
// devices; a GPU without limits is one device with the default limit.
func initialized(t testing.TB, spec string, opts simulated.Options, env config.Env, split ...[]float64) (
	*devmgr.Manager, *driver) {
	t.Helper()
	d := newDriver(t, spec, opts)
	m := enumerated(t, d, env)
	for i, limits := range split {
		require.NoError(t, splitGPU(m, i, limits...))
	}
	must.OK(m.Initialize(env, "main.py:1 (test)", nil))(t)
	return m, d
}

// isInitialized reports whether a Manager has logical devices.
func isInitialized(m *devmgr.Manager) bool {
	logical, err := m.LogicalDevices()
	return err == nil && len(logical) > 0
}

// splitGPU gives GPU i of the physical list logical devices with limits in MiB.
func splitGPU(m *devmgr.Manager, i int, limits ...float64) error {
	if len(limits) == 0 {
		return nil
	}
	var configs config.LogicalConfigs
	for _, limit := range limits {
		configs.Items = append(configs.Items, config.LogicalConfig{MemoryLimitMiB: &limit})
	}
	return m.Configure(func(s *config.State) error {
		return s.SetLogicalConfigs(config.Arg{Device: s.Physical()[i+1]}, configs)
	})
}

func setGrowth(m *devmgr.Manager, i int) error {
	return m.Configure(func(s *config.State) error {
		return s.SetGrowth(config.Arg{Device: s.Physical()[i+1]}, 1, "")
	})
}

func hide(m *devmgr.Manager, keep ...int) error {
	return m.Configure(func(s *config.State) error {
		var args []config.Arg
		for _, i := range keep {
			args = append(args, config.Arg{Device: s.Physical()[i]})
		}
		return s.SetVisible(args, nil)
	})
}

func allocate(t require.TestingT, m *devmgr.Manager, number int, bytes uint64) bfc.Block {
	return must.OK(m.Allocate(number, bytes, 0))(t)
}

func stats(t require.TestingT, m *devmgr.Manager, device string) bfc.Stats {
	return must.OK(m.MemoryStats(device))(t).Stats
}

func physicalNames(t require.TestingT, m *devmgr.Manager) []string {
	var names []string
	require.NoError(t, m.Inspect(func(s *config.State) error {
		for _, d := range s.Physical() {
			names = append(names, d.Name)
		}
		return nil
	}))
	return names
}

func logicalNames(t require.TestingT, m *devmgr.Manager) []string {
	devices := must.OK(m.LogicalDevices())(t)
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return names
}

// texts returns the pending notices as "level: text".
func texts(m *devmgr.Manager) []string {
	said := []string{}
	for _, n := range m.DrainNotices() {
		said = append(said, n.Level+": "+n.Text)
	}
	return said
}
