package devmgr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestInitializeBuildsLogicalDevicesInOrder(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{1000, 2000}, []float64{3000})
	devices := must.OK(m.LogicalDevices())(t)
	var full []string
	for _, device := range devices {
		full = append(full, device.FullName+" is a "+device.Type)
	}
	require.Equal(t, []string{
		"/job:localhost/replica:0/task:0/device:CPU:0 is a CPU",
		"/job:localhost/replica:0/task:0/device:GPU:0 is a GPU",
		"/job:localhost/replica:0/task:0/device:GPU:1 is a GPU",
		"/job:localhost/replica:0/task:0/device:GPU:2 is a GPU",
	}, full)
	require.Equal(t, 3, m.LogicalGPUs())
	require.True(t, isInitialized(m))
	for name, limit := range map[string]uint64{"GPU:0": 1000 * mib, "GPU:1": 2000 * mib, "GPU:2": 3000 * mib} {
		require.Equal(t, limit, stats(t, m, name).BytesLimit)
	}

	allocations, retains := d.machine.Live()
	require.Zero(t, allocations, "no memory is taken before the first allocation")
	require.Equal(t, 2, retains, "a context for each GPU")
	require.Equal(t, []string{
		"info: Created device /job:localhost/replica:0/task:0/device:GPU:0 with 1000 MB memory:  -> device: 0, " +
			"name: Tesla T4, pci bus id: 0000:17:00.0, compute capability: 7.5",
		"info: Created device /job:localhost/replica:0/task:0/device:GPU:1 with 2000 MB memory:  -> device: 0, " +
			"name: Tesla T4, pci bus id: 0000:17:00.0, compute capability: 7.5",
		"info: Created device /job:localhost/replica:0/task:0/device:GPU:2 with 3000 MB memory:  -> device: 1, " +
			"name: Tesla T4, pci bus id: 0000:1a:00.0, compute capability: 7.5",
	}, texts(m))

	must.OK(m.Initialize(nil, "elsewhere.py:2 (later)", nil))(t, "a second call does nothing")
	require.Equal(t, d.Calls(), 1+3, "and asks the driver nothing: it was one listing and three contexts")
}

func TestInitializeFreezesTheConfiguration(t *testing.T) {
	m, _ := initialized(t, "2xT4", simulated.Options{}, nil)
	for _, err := range []error{splitGPU(m, 0, 100), setGrowth(m, 1), hide(m, 0)} {
		must.Fail(t, status.State, err, "cannot be modified after being initialized")
		require.ErrorContains(t, err, "main.py:1 (test)")
	}
}

// A weak GPU in front must not shift the properties, limit or context of the logical devices behind it.
func TestInitializeBehindAnIgnoredGPU(t *testing.T) {
	env := config.Env{"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "41"}
	m, d := initialized(t, "T4:16GiB,H100-80GB:80GiB", simulated.Options{}, env)
	require.Equal(t, []string{"/device:CPU:0", "/device:GPU:0"}, logicalNames(t, m))
	require.Equal(t, 80*gib-1800*mib, stats(t, m, "GPU:0").BytesLimit)
	require.ErrorIs(t, must.Err2(d.machine.MemGetInfo(0)), gpu.ErrorInvalidContext, "the ignored GPU has no context")
	block := allocate(t, m, 0, 1)
	require.NotZero(t, d.taken(t, 1))
	require.NoError(t, m.Free(block.Addr))
}

func TestInitializeTakesVisibleGPUsOnly(t *testing.T) {
	d := newDriver(t, "2xT4", simulated.Options{})
	m := enumerated(t, d, nil)
	require.NoError(t, hide(m, 0, 2)) // the CPU and the second GPU
	must.OK(m.Initialize(nil, "", nil))(t)
	require.Equal(t, []string{"/device:CPU:0", "/device:GPU:0"}, logicalNames(t, m))
	require.Equal(t, 0, serving(t, m, 1, -1, gpu.StreamNull))
	must.Fail(t, status.InvalidArgument, must.Err(m.AllocateKnowing(0, 0, gpu.StreamNull, 0, 1, 0)))
}

// serving returns the logical GPU that serves an allocation. No other allocation may be live.
func serving(t *testing.T, m *devmgr.Manager, ordinal, scope int, stream gpu.Stream) int {
	block := must.OK(m.AllocateKnowing(ordinal, scope, stream, devmgr.Uncaptured|devmgr.Lasting, 1, 0))(t)
	var found []int
	for number := range m.LogicalGPUs() {
		for range stats(t, m, fmt.Sprintf("GPU:%d", number)).LiveBlocks {
			found = append(found, number)
		}
	}
	require.NoError(t, m.Free(block.Addr))
	require.Len(t, found, 1)
	return found[0]
}

func TestRoute(t *testing.T) {
	m, _ := initialized(t, "2xT4", simulated.Options{}, nil, []float64{100, 100}, []float64{100, 100})
	for _, row := range []struct{ ordinal, scope, want int }{
		{0, -1, 0}, {1, -1, 2}, // without a scope the ordinal's first
		{0, 1, 1}, {1, 3, 3}, // the scope's GPU, if it is on the ordinal
		{0, 3, 0}, {1, 0, 2}, // a scope on another GPU is ignored
		{0, 4, 0}, {0, -2, 0}, {0, 1 << 40, 0}, {0, -1 << 63, 0},
	} {
		require.Equal(t, row.want, serving(t, m, row.ordinal, row.scope, gpu.StreamNull), "ordinal %d, scope %d",
			row.ordinal, row.scope)
	}
	for _, ordinal := range []int{-1, 2, 1 << 31} {
		must.Fail(t, status.InvalidArgument, must.Err(m.AllocateKnowing(ordinal, -1, gpu.StreamNull, 0, 1, 0)))
	}
	must.Fail(t, status.ResourceExhausted, must.Err(m.AllocateKnowing(0, 1, gpu.StreamNull, 0, 101*mib, 0)),
		"on GPU:1: ")
}

// Errors of the layout come before any driver call, and a corrected configuration can be tried again.
func TestInitializeRefusesAPlanThatCannotBe(t *testing.T) {
	d := newDriver(t, "2xT4", simulated.Options{})
	m := enumerated(t, d, nil)
	require.NoError(t, setGrowth(m, 0))
	calls := d.Calls()
	must.Fail(t, status.Value, must.Err(m.Initialize(nil, "main.py:1 (test)", nil)),
		"Memory growth cannot differ between GPU devices")
	require.Equal(t, calls, d.Calls(), "the machine was not asked")
	require.False(t, isInitialized(m))
	require.Empty(t, texts(m))

	require.NoError(t, setGrowth(m, 1))
	must.OK(m.Initialize(nil, "main.py:2 (test)", nil))(t)
	require.True(t, isInitialized(m))
}

func TestInitializeWithoutMemoryInfo(t *testing.T) {
	d := newDriver(t, "2xT4", simulated.Options{})
	m := enumerated(t, d, nil)
	d.SetFaults(faults.OnOp("MemGetInfo", 1, gpu.ErrorIllegalAddress))
	err := must.Err(m.Initialize(nil, "", nil))
	must.Fail(t, status.Unknown, err, "Failed to query available memory for GPU 1")
	require.ErrorIs(t, err, gpu.ErrorIllegalAddress)
	d.requireNothingLeft(t)
	require.Zero(t, m.LogicalGPUs())

	must.OK(m.Initialize(nil, "", nil))(t)
	require.Equal(t, 2, m.LogicalGPUs())
}

// Explicit limits do not depend on the free memory, so it is not queried.
func TestInitializeWithLimitsAsksNoMemoryInfo(t *testing.T) {
	_, d := initialized(t, "T4:16GiB", simulated.Options{}, nil, []float64{100})
	require.Zero(t, d.CallsOf()["MemGetInfo"])
}

func TestInitializeWithoutContext(t *testing.T) {
	d := newDriver(t, "T4:16GiB", simulated.Options{})
	m := enumerated(t, d, nil)
	require.NoError(t, splitGPU(m, 0, 100, 100, 100))
	d.SetFaults(faults.OnOp("ContextRetain", 2, gpu.ErrorOutOfMemory),
		faults.OnOp("ContextRelease", 0, gpu.ErrorUnknown))
	err := must.Err(m.Initialize(nil, "", nil))
	must.Fail(t, status.ResourceExhausted, err, "GPU:2: cannot create a context on Tesla T4: the GPU is out of memory")
	require.ErrorContains(t, err, "GPU:1: cannot release the context on Tesla T4")
	_, retains := d.machine.Live()
	require.Equal(t, 1, retains, "one refused its release; the other one is gone")
	require.NoError(t, d.machine.ContextRelease(0))
}

// The table of TensorFlow's rule for a GPU without an explicit limit.
func TestDefaultLimit(t *testing.T) {
	for _, row := range []struct {
		spec      string
		available uint64
		want      uint64
	}{
		{"H100-80GB:100MiB", 104_857_600, 104_857_600},
		{"T4:225MiB", 235_929_600, 235_929_600},
		{"T4:226MiB", 235_929_601, 1},
		{"T4:2GiB", 2_147_483_647, 1_911_554_047},
		{"P100:2GiB", 2_147_483_648, 1_623_195_648},
		{"T4:2GiB", 2_147_483_648, 1_046_478_848},
		{"A100-40GB:2GiB", 2_147_483_648, 536_870_912},
		{"H100-80GB:2GiB", 2_147_483_648, 260_046_848},
		{"V100-16GB", 8_589_934_592, 7_488_929_792},
		{"A100-40GB", 17_179_869_184, 15_569_256_448},
		{"A100-80GB:80GiB", 85_899_345_920, 84_288_733_184},
		{"H100-80GB:80GiB", 85_899_345_920, 84_011_909_120},
		{"H200-141GB", 150_000_000_000, 148_112_563_200},
		{"B200-180GB", 150_000_000_000, 148_112_563_200},
	} {
		t.Run(row.spec, func(t *testing.T) {
			spec := must.OK(models.ParseSpec(row.spec))(t)
			m, _ := initialized(t, row.spec, simulated.Options{UsedBytes: spec.Cards[0].MemoryBytes - row.available},
				nil)
			require.Equal(t, row.want, stats(t, m, "GPU:0").BytesLimit)
		})
	}
}

func TestLimitsAndGrowthByEnvironment(t *testing.T) {
	const t4Default = 16*1024 - 1050 // MiB
	for _, row := range []struct {
		name      string
		env       config.Env
		limits    []float64
		growth    bool
		wantLimit uint64 // MiB
		wantFirst uint64 // MiB taken by the first allocation
		notice    string
	}{
		{"nothing set: all at once", nil, nil, false, t4Default, t4Default, ""},
		{"growth set", nil, nil, true, t4Default, 2, ""},
		{"an explicit limit: all of it at once", nil, []float64{100}, false, 100, 100, ""},
		{"growth forced", config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, nil, false, t4Default, 2,
			"warning: Overriding orig_value setting because the TF_FORCE_GPU_ALLOW_GROWTH environment variable is " +
				"set. Original config value was 0."},
		{"growth forced under an explicit limit", config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, []float64{100},
			false, 100, 2,
			"warning: Overriding orig_value setting because the TF_FORCE_GPU_ALLOW_GROWTH environment variable is " +
				"set. Original config value was 0."},
		{"growth forced off", config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, nil, true, t4Default, t4Default,
			"warning: Overriding orig_value setting because the TF_FORCE_GPU_ALLOW_GROWTH environment variable is " +
				"set. Original config value was 1."},
		{"growth that can't be read", config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "True"}, nil, true, t4Default, 2,
			"error: The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: \"True\". " +
				"Valid values are \"true\" or \"false\". Using original config value of 1."},
		{"a reserve of the user's", config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "384"}, nil, false, 16000, 16000, ""},
		{"a reserve of everything", config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "16384"}, nil, false, 0, 0, ""},
		{"a reserve larger than the GPU", config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "16385"}, nil, false,
			t4Default, t4Default,
			"warning: The requested reserved device memory 16.00GiB is larger than the available memory of " +
				"16.00GiB. The request is ignored."},
		{"a reserve does not touch an explicit limit", config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "384"},
			[]float64{100}, false, 100, 100, ""},
		{"a limit below one MiB serves nothing", nil, []float64{0.5}, false, 0, 0, ""},
		{"TensorFlow's other allocators", config.Env{"TF_GPU_ALLOCATOR": "cuda_malloc_async"}, nil, false,
			t4Default, t4Default,
			"warning: TF_GPU_ALLOCATOR=cuda_malloc_async is ignored: gpuconf has a single allocator, which enforces " +
				"limits and keeps statistics"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := newDriver(t, "T4:16GiB", simulated.Options{})
			m := enumerated(t, d, row.env)
			if row.growth {
				require.NoError(t, setGrowth(m, 0))
			}
			require.NoError(t, splitGPU(m, 0, row.limits...))
			must.OK(m.Initialize(row.env, "", nil))(t)
			said := texts(m)
			if row.notice != "" {
				require.Equal(t, row.notice, said[0])
			}
			require.Len(t, said, map[bool]int{true: 1, false: 2}[row.notice == ""],
				"beside the notice: Created device ...")
			require.Equal(t, row.wantLimit*mib, stats(t, m, "GPU:0").BytesLimit)
			require.Zero(t, d.taken(t, 0))

			block, err := m.Allocate(0, 1, 0)
			require.Equal(t, row.wantFirst*mib, d.taken(t, 0))
			if row.wantLimit == 0 {
				must.Fail(t, status.ResourceExhausted, err)
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 256, block.Bytes)
			require.NoError(t, m.Free(block.Addr))
		})
	}
}

// Without virtual memory management, a pool grows as TensorFlow's do.
func TestGrowthDoubles(t *testing.T) {
	m, d := initialized(t, "T4:16GiB", simulated.Options{NoVMM: true}, config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"})
	var blocks []uint64
	for _, taken := range []uint64{2, 6, 14, 30} {
		blocks = append(blocks, allocate(t, m, 0, 2*mib).Addr)
		for stats(t, m, "GPU:0").LargestFreeBlockBytes >= 2*mib {
			blocks = append(blocks, allocate(t, m, 0, 2*mib).Addr)
		}
		require.Equal(t, taken*mib, d.taken(t, 0))
		require.Equal(t, taken*mib, stats(t, m, "GPU:0").BytesReserved)
	}
	for _, addr := range blocks {
		require.NoError(t, m.Free(addr))
	}
}

// With it, a pool grows in place, by as many granules as it needs, and one block can span memory from different times.
func TestGrowthInPlace(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, []float64{9})
	var blocks []uint64
	for _, step := range []struct{ asked, taken uint64 }{{mib, 2 * mib}, {mib / 2, 2 * mib}, {mib, 4 * mib},
		{3 * mib, 6 * mib}} {
		blocks = append(blocks, allocate(t, m, 0, step.asked).Addr)
		require.Equal(t, step.taken, d.taken(t, 0))
		require.Equal(t, step.taken, stats(t, m, "GPU:0").BytesReserved)
	}
	for _, addr := range blocks {
		require.NoError(t, m.Free(addr))
	}
	whole := allocate(t, m, 0, 8*mib)
	require.Equal(t, blocks[0], whole.Addr)
	last := allocate(t, m, 0, mib)
	require.Equal(t, 9*mib, d.taken(t, 0), "the last MiB is no whole granule, and there all the same")
	require.NoError(t, m.Check())
	require.NoError(t, m.Free(whole.Addr))
	require.NoError(t, m.Free(last.Addr))
}

// Free regions are released before an allocation fails, unless the environment disables it.
func TestGarbageCollection(t *testing.T) {
	for _, row := range []struct {
		value   string
		works   bool
		notices int
	}{{"true", true, 0}, {"false", false, 0}, {"maybe", true, 1}} {
		t.Run(row.value, func(t *testing.T) {
			env := config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true", "TF_ENABLE_GPU_GARBAGE_COLLECTION": row.value}
			m, d := initialized(t, "T4:16GiB", simulated.Options{NoVMM: true}, env, []float64{8})
			require.Len(t, texts(m), 2+row.notices, "of growth, of the device, and of what can't be read")
			require.NoError(t, m.Free(allocate(t, m, 0, mib).Addr)) // leaves a free region of 2 MiB
			block, err := m.Allocate(0, 7*mib, 0)
			if !row.works {
				must.Fail(t, status.ResourceExhausted, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 8*mib, d.taken(t, 0))
			require.NoError(t, m.Check(), "the region that went back has no owner any more")
			require.NoError(t, m.Free(block.Addr))
		})
	}
}

func TestPoolsStayBelowTheCeiling(t *testing.T) {
	env := config.Env{"GPUCONF_LIMIT": fmt.Sprint(3*gib + 7), "TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "1024"}
	m, _ := initialized(t, "3xT4", simulated.Options{}, env, nil, []float64{2048, 2048}, []float64{1024})
	for name, limit := range map[string]uint64{
		"GPU:0": 3*gib + 7, "GPU:1": 2 * gib, "GPU:2": gib + 7, "GPU:3": gib,
	} {
		require.Equal(t, limit, stats(t, m, name).BytesLimit, name)
	}
	require.Contains(t, texts(m), "warning: The limit of GPU:2 is lowered from 2.00GiB to 1.00GiB, which "+
		"GPUCONF_LIMIT leaves for it.")
}

// A ceiling up to the whole card is the limit of its pool, whatever TensorFlow would leave to the system; a card that
// has less gets TensorFlow's default.
func TestACeilingOfTheWholeCard(t *testing.T) {
	const card, byDefault = 16 * gib, 16*gib - 1050<<20
	for _, row := range []struct {
		name           string
		ceiling, limit uint64
		before         devmgr.InForce
	}{
		{"a byte less", card - 1, card - 1, devmgr.InForce{Bytes: card - 1, Known: true}},
		{"all of it", card, card, devmgr.InForce{Bytes: card, Known: true}},
		{"a byte more", card + 1, byDefault, devmgr.InForce{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			env := config.Env{"GPUCONF_LIMIT": fmt.Sprint(row.ceiling)}
			m := enumerated(t, newDriver(t, "T4:16GiB", simulated.Options{}), env)
			inForce := must.OK(m.InForce(1, env))(t)
			require.Equal(t, row.before, inForce)
			must.OK(m.Initialize(env, "main.py:1", nil))(t)
			require.Equal(t, row.limit, stats(t, m, "GPU:0").BytesLimit)
			inForce = must.OK(m.InForce(1, env))(t)
			require.Equal(t, devmgr.InForce{Bytes: row.limit, Known: true}, inForce)
		})
	}
}

func TestAnInvalidCeilingChangesNothing(t *testing.T) {
	m := enumerated(t, newDriver(t, "T4:16GiB", simulated.Options{}), nil)
	must.Fail(t, status.InvalidArgument, must.Err(m.Initialize(config.Env{"GPUCONF_LIMIT": "0"}, "main.py:1", nil)))
	require.False(t, isInitialized(m))
	must.OK(m.Initialize(nil, "main.py:2", nil))(t)
}

// onCards is a driver whose memory other libraries use too, as that of real GPUs.
type onCards struct{ gpu.Driver }

func (onCards) HostVisible() bool { return false }

// What a pool that grows cannot do between GPUs is said once, where there are several.
func TestGrowthBetweenGPUsIsWarnedOf(t *testing.T) {
	for name, tt := range map[string]struct {
		spec, growth string
		cards        bool
		want         int
	}{
		"two GPUs":           {"2xT4", "true", true, 1},
		"two without growth": {"2xT4", "false", true, 0},
		"one GPU":            {"T4", "true", true, 0},
		"simulated GPUs":     {"2xT4", "true", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var driver gpu.Driver = newDriver(t, tt.spec, simulated.Options{})
			if tt.cards {
				driver = onCards{driver}
			}
			m, err := devmgr.New(driver, config.Env{})
			require.NoError(t, err)
			must.OK(m.Initialize(config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": tt.growth}, "main.py:1 (test)", nil))(t)
			said := 0
			for _, n := range m.DrainNotices() {
				if strings.Contains(n.Text, "do not work with it") {
					said++
					require.Equal(t, "warning", n.Level)
					for _, word := range []string{"2 GPUs are visible", "NCCL", "CUDA IPC", "Dask-CUDA", "UCX", "RDMA",
						"NIXL", "growth=False"} {
						require.Contains(t, n.Text, word)
					}
				}
			}
			require.Equal(t, tt.want, said)
			require.NoError(t, m.Close(false))
		})
	}
}
