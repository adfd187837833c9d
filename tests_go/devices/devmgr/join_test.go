package devmgr_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

var (
	grows   = config.Options{AllowGrowth: true}
	two5ths = config.Options{Sizing: config.Sizing{Fraction: 0.4}}
)

func join(t require.TestingT, m *devmgr.Manager, o config.Options, origin string) (devmgr.View, bool) {
	view, renamed := must.OK2(m.Join(o, nil, origin, nil))(t)
	return view, renamed
}

func TestTheFirstToJoinInitializes(t *testing.T) {
	d := newDriver(t, "2xK40:12GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	view, renamed := join(t, m, two5ths, "main.py:7 (Session)")
	require.Equal(t, devmgr.View{CPUs: 1, GPUs: 2}, view)
	require.True(t, renamed)
	for _, gpu := range []string{"GPU:0", "GPU:1"} {
		require.Equal(t, uint64(12*gib*2/5), stats(t, m, gpu).BytesLimit, "two fifths of the total of %s", gpu)
	}
}

// As in TensorFlow, a session leaves the configuration open. What is set after it is in effect once the runtime is
// initialized.
func TestSettingsAfterASessionBuildAnew(t *testing.T) {
	d := newDriver(t, "2xK40:12GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, two5ths, "main.py:7 (Session)")
	require.NoError(t, setGrowth(m, 0))
	require.NoError(t, setGrowth(m, 1))
	require.False(t, must.OK(m.Initialize(nil, "main.py:9 (list_logical_devices)", nil))(t))
	require.Greater(t, stats(t, m, "GPU:0").BytesLimit, uint64(12*gib*2/5))
	require.ErrorContains(t, m.Configure(func(s *config.State) error { return s.SetVisible(nil, nil) }),
		"main.py:9 (list_logical_devices)")
}

// Devices that keep their names may be in use elsewhere. Those that would lose them must not be.
func TestSettingsAfterASessionThatRenameNeedUnusedDevices(t *testing.T) {
	d := newDriver(t, "2xK40:12GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, two5ths, "main.py:7 (Session)")
	inUse := func() error { return errors.New("a tensor is on GPU:1") }
	require.NoError(t, hide(m, 0, 1), "the CPU and one GPU are left")
	must.Fail(t, status.AlreadyExists, must.Err(m.Initialize(nil, "", inUse)), "a tensor is on GPU:1")

	m = enumerated(t, newDriver(t, "2xK40:12GiB", simulated.Options{}), nil)
	join(t, m, two5ths, "main.py:7 (Session)")
	require.NoError(t, setGrowth(m, 0))
	require.NoError(t, setGrowth(m, 1))
	require.False(t, must.OK(m.Initialize(nil, "", inUse))(t))
}

// Without settings after the session, its devices stay, and the configuration is closed when they are needed first.
func TestTheFirstNeedAfterASessionClosesTheConfiguration(t *testing.T) {
	m := enumerated(t, newDriver(t, "2xK40:12GiB", simulated.Options{}), nil)
	join(t, m, two5ths, "main.py:7 (Session)")
	require.False(t, must.OK(m.Initialize(nil, "main.py:9 (list_logical_devices)", nil))(t))
	require.Equal(t, uint64(12*gib*2/5), stats(t, m, "GPU:0").BytesLimit)
	require.ErrorContains(t, hide(m, 0), "main.py:9 (list_logical_devices)")
}

func TestSettingsAfterASessionFailWhileMemoryIsInUse(t *testing.T) {
	d := newDriver(t, "2xK40:12GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, config.Options{}, "main.py:7 (Session)")
	block := must.OK(m.Allocate(0, gib, 0))(t)
	require.NoError(t, setGrowth(m, 0))
	require.NoError(t, setGrowth(m, 1))
	must.Fail(t, status.AlreadyExists, must.Err(m.Initialize(nil, "", nil)), "main.py:7 (Session)")
	require.NoError(t, m.Free(block.Addr))
	must.OK(m.Initialize(nil, "", nil))(t)
}

// With a ConfigProto, growth that differs between GPUs does not matter, as in TensorFlow.
func TestASessionWithAConfigProtoIgnoresGrowthThatDiffers(t *testing.T) {
	d := newDriver(t, "2xK40:12GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	require.NoError(t, setGrowth(m, 0))
	must.Fail(t, status.Value, must.Err2(m.Join(config.Options{}, nil, "", nil)))
	join(t, m, config.Options{Given: true, AllowGrowth: true}, "")
	must.Fail(t, status.Value, must.Err(m.Initialize(nil, "", nil)))
}

// The fraction is an upper bound: the memory taken from the card never exceeds it.
func TestAFractionBoundsWhatTheCardGives(t *testing.T) {
	d := newDriver(t, "K40", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, config.Options{AllowGrowth: true, Sizing: config.Sizing{Fraction: 0.4}}, "")
	limit := uint64(12 * gib * 2 / 5)
	var blocks []uint64
	for size := gib; size >= 256; {
		block, err := m.Allocate(0, size, 0)
		if err != nil {
			must.Fail(t, status.ResourceExhausted, err)
			size /= 2
			continue
		}
		blocks = append(blocks, block.Addr)
		require.LessOrEqual(t, d.taken(t, 0), limit)
	}
	require.Greater(t, d.taken(t, 0), limit-gib, "most of it can be had")
	for _, addr := range blocks {
		require.NoError(t, m.Free(addr))
	}
}

func TestOptionsThatAskForWhatIsThereJoin(t *testing.T) {
	for _, row := range []struct {
		name          string
		first, second config.Options
	}{
		{"nothing asked", two5ths, config.Options{}},
		{"equal", two5ths, two5ths},
		{"the usual allocator by name", two5ths, config.Options{AllocatorType: "BFC", Sizing: two5ths.Sizing}},
		{"all GPUs by number", config.Options{}, config.Options{VisibleDeviceList: "0,1"}},
		{"fewer devices", grows, config.Options{AllowGrowth: true, DeviceCount: map[string]int64{"GPU": 1}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := enumerated(t, newDriver(t, "2xK40:12GiB", simulated.Options{}), nil)
			join(t, m, row.first, "a.py:1")
			block := allocate(t, m, 0, 1000)
			_, renamed := join(t, m, row.second, "b.py:2")
			require.False(t, renamed)
			require.NoError(t, m.Free(block.Addr), "the block outlived the second session's coming")
		})
	}
}

func TestOtherOptionsBuildEmptyPoolsAnew(t *testing.T) {
	d := newDriver(t, "2xK40:12GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, config.Options{}, "a.py:1")
	require.NoError(t, m.Free(allocate(t, m, 0, 1).Addr))
	require.Greater(t, d.taken(t, 0), 11*gib, "the whole limit is taken without growth")

	_, renamed := join(t, m, grows, "b.py:2")
	require.False(t, renamed, "the devices are called as before")
	require.Zero(t, d.taken(t, 0), "what the pool had is given back")
	require.NoError(t, m.Free(allocate(t, m, 0, 1).Addr))
	require.Equal(t, 2*mib, d.taken(t, 0), "growth starts small")

	_, renamed = join(t, m, config.Options{VisibleDeviceList: "1"}, "c.py:3")
	require.True(t, renamed)
	require.Equal(t, 1, m.LogicalGPUs())
	require.Equal(t, 1, must.OK(m.Physical(0))(t).Ordinal)
}

func TestOtherOptionsAreRefusedWhileMemoryIsInUse(t *testing.T) {
	m := enumerated(t, newDriver(t, "K40", simulated.Options{}), nil)
	join(t, m, grows, "a.py:1 (Session)")
	block := allocate(t, m, 0, 1000)
	_, _, err := m.Join(two5ths, nil, "b.py:2 (Session)", nil)
	must.Fail(t, status.FailedPrecondition, err, "1 block on GPU:0 (1.0KiB)")
	require.ErrorContains(t, err, "a.py:1 (Session)")
	require.NoError(t, m.Free(block.Addr))
	join(t, m, two5ths, "b.py:2 (Session)")
}

func TestAViewIsTheSessionsOwn(t *testing.T) {
	for _, row := range []struct {
		name  string
		count map[string]int64
		want  devmgr.View
	}{
		{"nothing asked", nil, devmgr.View{CPUs: 1, GPUs: 2}},
		{"no GPU", map[string]int64{"GPU": 0}, devmgr.View{CPUs: 1, GPUs: 0}},
		{"fewer than no GPU", map[string]int64{"GPU": -1}, devmgr.View{CPUs: 1, GPUs: 0}},
		{"one GPU", map[string]int64{"GPU": 1}, devmgr.View{CPUs: 1, GPUs: 1}},
		{"more GPUs than there are", map[string]int64{"GPU": 7}, devmgr.View{CPUs: 1, GPUs: 2}},
		{"three CPUs", map[string]int64{"CPU": 3}, devmgr.View{CPUs: 3, GPUs: 2}},
		{"another type", map[string]int64{"TPU": 3}, devmgr.View{CPUs: 1, GPUs: 2}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := enumerated(t, newDriver(t, "2xK40:12GiB", simulated.Options{}), nil)
			view, _ := join(t, m, config.Options{DeviceCount: row.count}, "")
			require.Equal(t, row.want, view)
			require.Equal(t, row.want.GPUs > 0, m.Initialized(), "a session without GPUs builds none")
			join(t, m, config.Options{}, "")
			require.Equal(t, 2, m.LogicalGPUs(), "the runtime has them all the same")
		})
	}
}

// A stream that represents a logical GPU ends with its pool: another pool has another stream.
func TestStreamsOfLogicalGPUsEndWithTheirPools(t *testing.T) {
	d := newDriver(t, "T4:16GiB", simulated.Options{})
	r := &recycler{driver: d, now: map[gpu.Stream]gpu.Stream{}}
	m := must.OK(devmgr.New(r, nil))(t)
	t.Cleanup(func() {
		require.NoError(t, m.Close(true))
		d.requireNothingLeft(t)
	})
	join(t, m, config.Options{Sizing: config.Sizing{Shares: 2}}, "a.py:1")
	stream := must.OK(m.StreamOf(1))(t)
	join(t, m, two5ths, "b.py:2")
	must.Fail(t, status.InvalidArgument, must.Err(m.AllocateKnowing(0, -1, stream, 0, 1, 0)),
		"is not a stream of CUDA device 0: it was destroyed")
	r.now[stream] = newStream(t, d) // the program's, with the handle of the one that ended
	require.Zero(t, serving(t, m, 0, -1, stream))
	require.NoError(t, m.Check())
}

func TestOptionsThatCantBeAreRefusedAndChangeNothing(t *testing.T) {
	virtual := func(limits ...[]float64) (list []config.VirtualDevices) {
		for _, l := range limits {
			list = append(list, config.VirtualDevices{MemoryLimitMiB: l})
		}
		return list
	}
	for _, row := range []struct {
		name    string
		options config.Options
		code    status.Code
		text    string
	}{
		{"case 88: twice", config.Options{VisibleDeviceList: "0,0"}, status.InvalidArgument,
			"visible_device_list contained a duplicate entry: 0,0"},
		{"case 88: no number", config.Options{VisibleDeviceList: "0,abc"}, status.InvalidArgument,
			"Could not parse entry in 'visible_device_list': 'abc'."},
		{"case 88: beyond", config.Options{VisibleDeviceList: "100"}, status.InvalidArgument,
			"'visible_device_list' listed an invalid Device id '100' but visible device count is 2"},
		{"below", config.Options{VisibleDeviceList: "-1"}, status.InvalidArgument, "listed an invalid Device id '-1'"},
		{"case 89: a fraction and logical devices", config.Options{Sizing: config.Sizing{Fraction: 0.1},
			VirtualDevices: virtual(nil)}, status.InvalidArgument,
			"It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set."},
		{"case 90: no GPU and a logical device", config.Options{DeviceCount: map[string]int64{"GPU": 0},
			VirtualDevices: virtual(nil)}, status.Unknown,
			"Not enough GPUs to create virtual devices. num_gpus_to_use: 0 #virtual_devices: 1"},
		{"case 91: more entries than GPUs", config.Options{VisibleDeviceList: "0", VirtualDevices: virtual(nil, nil)},
			status.Unknown,
			"Not enough GPUs to create virtual devices. num_gpus_to_use: 1 #virtual_devices: 2"},
		{"case 91: fewer entries than GPUs", config.Options{VisibleDeviceList: "0,1", VirtualDevices: virtual(nil)},
			status.InvalidArgument,
			"The number of GPUs in visible_device_list doesn't match the number of elements in the virtual_devices " +
				"list. #GPUs in visible_device_list: 2 virtual_devices.size(): 1"},
		{"fewer entries than all GPUs", config.Options{VirtualDevices: virtual(nil)}, status.Unknown,
			"The number of valid GPUs doesn't match the number of elements in the virtual_devices list. #valid " +
				"GPUs: 2 virtual_devices.size(): 1"},
		{"fewer ordinals than limits", config.Options{VirtualDevices: []config.VirtualDevices{
			{MemoryLimitMiB: []float64{1, 2}, Ordinal: []int64{1}}, {MemoryLimitMiB: []float64{1}, Ordinal: []int64{1}},
		}}, status.InvalidArgument, "Number of virtual device ordinals specified doesn't match with number of " +
			"memory_limit_mb specified for GPU# 0"},
		{"more priorities than limits", config.Options{VirtualDevices: []config.VirtualDevices{
			{MemoryLimitMiB: []float64{1}, Priority: []int64{0, 0}},
			{MemoryLimitMiB: []float64{1}, Priority: []int64{0}},
		}}, status.InvalidArgument, "Number of virtual device priorities specified doesn't match with number of " +
			"memory_limit_mb specified for GPU# 0"},
		{"an immense limit", config.Options{VirtualDevices: virtual([]float64{math.Inf(1)}, nil)}, status.Value,
			"memory_limit is +Inf"},
		{"more than there is, on an old GPU", config.Options{Sizing: config.Sizing{Fraction: 1.5}}, status.Internal,
			"Unified memory on GPUs with compute capability lower than 6.0 (pre-Pascal class GPUs) does not support " +
				"oversubscription."},
		{"unified memory on an old GPU", config.Options{UnifiedMemory: true}, status.Internal,
			"Unified memory on GPUs"},
		{"a negative fraction", config.Options{Sizing: config.Sizing{Fraction: -0.4}}, status.InvalidArgument,
			"per_process_gpu_memory_fraction is -0.4"},
		{"no fraction", config.Options{Sizing: config.Sizing{Fraction: math.NaN()}}, status.InvalidArgument,
			"per_process_gpu_memory_fraction is NaN"},
		{"another allocator", config.Options{AllocatorType: "best"}, status.Internal,
			"Failed to get memory allocator for TF GPU 0 with 12360613888 bytes of memory."},
		{"no CPU", config.Options{DeviceCount: map[string]int64{"CPU": 0}}, status.NotFound,
			"No CPU devices are available in this process"},
		{"countless CPUs", config.Options{DeviceCount: map[string]int64{"CPU": math.MaxInt32}}, status.InvalidArgument,
			"device_count['CPU'] is 2147483647"},
		{"countless shares", config.Options{Sizing: config.Sizing{Shares: math.MaxInt32}}, status.InvalidArgument,
			"num_virtual_devices_per_gpu is 2147483647"},
		{"a negative reserve", config.Options{Sizing: config.Sizing{SystemMiB: -1}}, status.InvalidArgument,
			"must not be negative"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := enumerated(t, newDriver(t, "2xK40:12GiB", simulated.Options{}), nil)
			for _, ready := range []bool{false, true} {
				if ready {
					join(t, m, grows, "a.py:1")
				}
				must.Fail(t, row.code, must.Err2(m.Join(row.options, nil, "b.py:2", nil)), row.text)
				require.Equal(t, ready, isInitialized(m))
			}
			require.NoError(t, m.Free(allocate(t, m, 0, 1).Addr))
			require.Equal(t, 2*mib, stats(t, m, "GPU:0").BytesReserved, "the pools are those of a.py")
			require.NoError(t, m.Check())
		})
	}
}

func TestASessionsLogicalDevicesFollowItsOwnOrder(t *testing.T) {
	m := enumerated(t, newDriver(t, "2xK40:12GiB", simulated.Options{}), nil)
	join(t, m, config.Options{VisibleDeviceList: "1,0", VirtualDevices: []config.VirtualDevices{
		{MemoryLimitMiB: []float64{10, 20}}, {MemoryLimitMiB: []float64{30}},
	}}, "")
	for number, want := range []struct {
		ordinal int
		limit   uint64
	}{{1, 10 * mib}, {1, 20 * mib}, {0, 30 * mib}} {
		physical := must.OK(m.Physical(number))(t)
		limit := must.OK(m.LimitBytes(number))(t)
		require.Equal(t, want.ordinal, physical.Ordinal)
		require.Equal(t, want.limit, limit)
	}
}

// Case 92.
func TestSharesDivideTheLimit(t *testing.T) {
	m := enumerated(t, newDriver(t, "K40:12GiB", simulated.Options{}), nil)
	view, _ := join(t, m, config.Options{Sizing: config.Sizing{Shares: 2, Fraction: 0.5}}, "")
	require.Equal(t, 2, view.GPUs)
	for _, gpu := range []string{"GPU:0", "GPU:1"} {
		require.Equal(t, uint64(3*gib), stats(t, m, gpu).BytesLimit)
	}
}

// Where a session sets nothing, gpuconf.config applies.
func TestASessionsOptionsGoOverTheConfiguration(t *testing.T) {
	m := enumerated(t, newDriver(t, "2xK40:12GiB", simulated.Options{}), nil)
	require.NoError(t, hide(m, 0, 2))
	require.NoError(t, setGrowth(m, 1))
	join(t, m, two5ths, "")
	require.Equal(t, 1, m.LogicalGPUs(), "one is hidden")
	require.Equal(t, 1, must.OK(m.Physical(0))(t).Ordinal)
	require.NoError(t, m.Free(allocate(t, m, 0, 1).Addr))
	require.Equal(t, 2*mib, stats(t, m, "GPU:0").BytesReserved, "it grows")
	require.Equal(t, uint64(12*gib*2/5), stats(t, m, "GPU:0").BytesLimit)
}

func TestAFailedRebuildPutsThePoolsBack(t *testing.T) {
	d := newDriver(t, "2xK40:12GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, grows, "a.py:1")
	d.SetFaults(faults.OnOp("ContextRetain", d.CallsOf()["ContextRetain"]+1, gpu.ErrorUnknown))
	require.Error(t, must.Err2(m.Join(two5ths, nil, "b.py:2", nil)))
	require.Equal(t, 2, m.LogicalGPUs())
	require.NoError(t, m.Free(allocate(t, m, 1, 1).Addr))
	require.Equal(t, 2*mib, stats(t, m, "GPU:1").BytesReserved)
}

// If even that fails, there is no GPU, and every error says so.
func TestAGPUThatCantBeSetUpAgainIsGone(t *testing.T) {
	d := newDriver(t, "2xK40:12GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, grows, "a.py:1")
	d.SetFaults(func(c faults.Call) error {
		if c.Op == "ContextRetain" {
			return gpu.ErrorUnknown
		}
		return nil
	})
	require.ErrorContains(t, must.Err2(m.Join(two5ths, nil, "b.py:2", nil)), "call gpuconf.reset()")
	require.Equal(t, []string{"/device:CPU:0"}, logicalNames(t, m))
	must.Fail(t, status.InvalidArgument, must.Err(m.MemoryStats("GPU:0")))
	must.Fail(t, status.InvalidArgument, must.Err(m.Allocate(0, 1, 0)))
}

func TestJoinAfterClose(t *testing.T) {
	m := enumerated(t, newDriver(t, "K40", simulated.Options{}), nil)
	require.NoError(t, m.Close(false))
	must.Fail(t, status.FailedPrecondition, must.Err2(m.Join(config.Options{}, nil, "", nil)))
}
