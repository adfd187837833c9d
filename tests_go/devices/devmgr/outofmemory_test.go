package devmgr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestOutOfMemory(t *testing.T) {
	for _, row := range []struct {
		name    string
		spec    string
		opts    simulated.Options
		env     config.Env
		limits  []float64
		prepare func(t *testing.T, m *devmgr.Manager, d *driver)
		ask     uint64
		cause   bfc.Cause
		want    string
	}{
		{
			name: "limit reached", spec: "T4", limits: []float64{10},
			prepare: func(t *testing.T, m *devmgr.Manager, _ *driver) {
				allocate(t, m, 0, 4*mib)
				allocate(t, m, 0, 3*mib)
			},
			ask: 4 * mib, cause: bfc.LimitReached,
			want: "OOM when allocating 4.00MiB (4194304 bytes) on GPU:0: out of memory, the limit is reached.\n  " +
				"limit 10.00MiB (10485760 bytes), in use 7.00MiB (7340032 bytes) in 2 blocks, reserved 10.00MiB " +
				"(10485760 bytes), largest free block 3.00MiB (3145728 bytes)\n  in use by c, untagged: 7.00MiB " +
				"(7340032 bytes) in 2 blocks\n  on Tesla T4. Free memory, or raise its limit.",
		},
		{
			name: "too large", spec: "T4", limits: []float64{10},
			ask: 10*mib + 1, cause: bfc.TooLarge,
			want: "OOM when allocating 10.00MiB (10485761 bytes) on GPU:0: out of memory, the request is larger " +
				"than the limit.\n  limit 10.00MiB (10485760 bytes), in use 0 bytes in 0 blocks, reserved 0 bytes, " +
				"largest free block 0 bytes\n  on Tesla T4. Request less memory, or raise its limit.",
		},
		{
			name: "huge", spec: "T4:16GiB", limits: []float64{10}, ask: 1<<64 - 1, cause: bfc.TooLarge,
			want: "OOM when allocating 18446744073709551615 bytes on GPU:0: out of memory, the request is larger " +
				"than the limit.\n  limit 10.00MiB (10485760 bytes), in use 0 bytes in 0 blocks, reserved 0 bytes, " +
				"largest free block 0 bytes\n  on Tesla T4, which has 16.00GiB (17179869184 bytes) in total. " +
				"Request less memory, or raise its limit.",
		},
		{
			name: "fragmented", spec: "T4", limits: []float64{8},
			prepare: func(t *testing.T, m *devmgr.Manager, _ *driver) {
				var blocks []uint64
				for range 8 {
					blocks = append(blocks, allocate(t, m, 0, mib).Addr)
				}
				for i := 0; i < 8; i += 2 {
					require.NoError(t, m.Free(blocks[i]))
				}
			},
			ask: 2 * mib, cause: bfc.Fragmented,
			want: "OOM when allocating 2.00MiB (2097152 bytes) on GPU:0: out of memory, enough memory is free, but " +
				"it is fragmented.\n  limit 8.00MiB (8388608 bytes), in use 4.00MiB (4194304 bytes) in 4 blocks, " +
				"reserved 8.00MiB (8388608 bytes), largest free block 1.00MiB (1048576 bytes)\n  in use by c, " +
				"untagged: 4.00MiB (4194304 bytes) in 4 blocks\n  on Tesla T4. See " +
				"gpuconf.memory.memory_map(\"GPU:0\"). Allocate the largest buffers first, or raise the limit. With " +
				"memory growth, scattered free memory is remapped to one contiguous range.",
		},
		{
			name: "another program has the GPU", spec: "T4:1GiB", opts: simulated.Options{UsedBytes: gib - 3*mib},
			limits: []float64{100},
			ask:    4 * mib, cause: bfc.DeviceFull,
			want: "OOM when allocating 4.00MiB (4194304 bytes) on GPU:0: " +
				"out of memory, the limit was not reached, but the GPU refused (CUDA_ERROR_OUT_OF_MEMORY (2)).\n" +
				"  limit 100.00MiB (104857600 bytes), in use 0 bytes in 0 blocks, reserved 0 bytes, largest free " +
				"block 0 bytes\n  on Tesla T4. Free memory, or end other programs on this GPU.",
		},
		{
			name: "two logical GPUs want more than there is", spec: "T4:100MiB", limits: []float64{60, 60},
			prepare: func(t *testing.T, m *devmgr.Manager, d *driver) {
				allocate(t, m, 1, mib)
				require.Equal(t, 60*mib, d.taken(t, 0))
			},
			ask: 41 * mib, cause: bfc.DeviceFull,
			want: "OOM when allocating 41.00MiB (42991616 bytes) on GPU:0: " +
				"out of memory, the limit was not reached, but the GPU refused (CUDA_ERROR_OUT_OF_MEMORY (2)).\n" +
				"  limit 60.00MiB (62914560 bytes), in use 0 bytes in 0 blocks, reserved 0 bytes, largest free " +
				"block 0 bytes\n  on Tesla T4. Free memory, or end other programs on this GPU. GPU:1 has reserved " +
				"60.00MiB (62914560 bytes) of it and uses 1.00MiB (1048576 bytes).",
		},
		{
			name: "a limit that is more than there is", spec: "T4:100MiB", limits: []float64{150},
			ask: 120 * mib, cause: bfc.DeviceFull,
			want: "OOM when allocating 120.00MiB (125829120 bytes) on GPU:0: out of memory, the limit was not " +
				"reached, but the GPU refused (CUDA_ERROR_OUT_OF_MEMORY (2)).\n  limit 150.00MiB (157286400 bytes), " +
				"in use 0 bytes in 0 blocks, reserved 0 bytes, largest free block 0 bytes\n  on Tesla T4, which has " +
				"100.00MiB (104857600 bytes) in total. Request less memory: this is more than the GPU has.",
		},
		{
			name: "a limit that is more than there is, and a small request", spec: "T4:100MiB", limits: []float64{150},
			prepare: func(t *testing.T, m *devmgr.Manager, _ *driver) { allocate(t, m, 0, 60*mib) },
			ask:     50 * mib, cause: bfc.DeviceFull,
			want: "OOM when allocating 50.00MiB (52428800 bytes) on GPU:0: " +
				"out of memory, the limit was not reached, but the GPU refused (CUDA_ERROR_OUT_OF_MEMORY (2)).\n" +
				"  limit 150.00MiB (157286400 bytes), in use 60.00MiB (62914560 bytes) in 1 block, reserved 98.42MiB " +
				"(103195904 bytes), largest free block 38.42MiB (40281344 bytes)\n  in use by c, untagged: 60.00MiB " +
				"(62914560 bytes) in 1 block\n  on Tesla T4, which has 100.00MiB (104857600 bytes) in total. Free " +
				"memory: with this request the process would use more than the GPU has, which is less than the limit.",
		},
		{
			name: "lowered by the environment", spec: "T4", limits: []float64{10},
			env: config.Env{"GPUCONF_LIMIT": "4194304"},
			ask: 5 * mib, cause: bfc.TooLarge,
			want: "OOM when allocating 5.00MiB (5242880 bytes) on GPU:0: out of memory, the request is larger than " +
				"the limit.\n  limit 4.00MiB (4194304 bytes), in use 0 bytes in 0 blocks, reserved 0 bytes, largest " +
				"free block 0 bytes\n  on Tesla T4. Request less memory, or raise GPUCONF_LIMIT, which sets this " +
				"limit (gpuconf config --explain shows from where).",
		},
		{
			name: "lowered by a lease", spec: "T4", limits: []float64{10},
			env: config.Env{"GPUCONF_LIMIT": "4194304", "GPUCONF_LIMIT_FROM": "4194304 --memory of gpuconf run"},
			ask: 5 * mib, cause: bfc.TooLarge,
			want: "OOM when allocating 5.00MiB (5242880 bytes) on GPU:0: out of memory, the request is larger than " +
				"the limit.\n  limit 4.00MiB (4194304 bytes), in use 0 bytes in 0 blocks, reserved 0 bytes, largest " +
				"free block 0 bytes\n  on Tesla T4. Request less memory, or raise --memory of gpuconf run, which " +
				"sets this limit.",
		},
		{
			name: "not lowered by the environment", spec: "T4", limits: []float64{4},
			env: config.Env{"GPUCONF_LIMIT": "4194304"},
			ask: 5 * mib, cause: bfc.TooLarge,
			want: "OOM when allocating 5.00MiB (5242880 bytes) on GPU:0: out of memory, the request is larger than " +
				"the limit.\n  limit 4.00MiB (4194304 bytes), in use 0 bytes in 0 blocks, reserved 0 bytes, largest " +
				"free block 0 bytes\n  on Tesla T4. Request less memory, or raise its limit.",
		},
		{
			name: "more than the GPU has in the environment", spec: "T4:16GiB",
			env: config.Env{"GPUCONF_LIMIT": "34359738368"},
			ask: 1 << 34, cause: bfc.TooLarge,
			want: "OOM when allocating 16.00GiB (17179869184 bytes) on GPU:0: out of memory, the request is larger " +
				"than the limit.\n  limit 14.97GiB (16078864384 bytes), in use 0 bytes in 0 blocks, reserved 0 " +
				"bytes, largest free block 0 bytes\n  on Tesla T4. Request less memory, or raise its limit.",
		},
		{
			name: "another rank's GPU", spec: "2xT4",
			env: config.Env{"GPUCONF_LIMIT": "4194304", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
			ask: mib, cause: bfc.TooLarge,
			want: "OOM when allocating 1.00MiB (1048576 bytes) on GPU:0: out of memory, the request is larger than " +
				"the limit.\n  limit 0 bytes, in use 0 bytes in 0 blocks, reserved 0 bytes, largest free block 0 " +
				"bytes\n  on Tesla T4. Request less memory, or use the GPU of this process: this GPU belongs to " +
				"LOCAL_RANK 0, and this process is LOCAL_RANK 1.",
		},
		{
			name: "a GPU that is broken", spec: "T4", limits: []float64{100},
			prepare: func(t *testing.T, _ *devmgr.Manager, d *driver) {
				d.SetFaults(faults.Seeded(1, 0, gpu.ErrorIllegalAddress))
			},
			ask: mib, cause: bfc.DeviceFull,
			want: "OOM when allocating 1.00MiB (1048576 bytes) on GPU:0: out of memory, the limit was not reached, " +
				"but the GPU refused (CUDA_ERROR_ILLEGAL_ADDRESS (700)).\n  limit 100.00MiB (104857600 bytes), in " +
				"use 0 bytes in 0 blocks, reserved 0 bytes, largest free block 0 bytes\n  on Tesla T4. The GPU may " +
				"have memory left: this is a GPU or driver fault; restarting the process may help.",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, d := initialized(t, row.spec, row.opts, row.env, row.limits)
			if row.prepare != nil {
				row.prepare(t, m, d)
			}
			before, taken := stats(t, m, "GPU:0"), d.taken(t, 0)
			_, err := m.Allocate(0, row.ask, 0)
			must.Fail(t, status.ResourceExhausted, err)
			require.EqualError(t, err, row.want)
			require.ErrorContains(t, err, " out of memory", "the letters that other libraries look for")
			var cause *bfc.OutOfMemory
			require.True(t, errors.As(err, &cause))
			require.Equal(t, row.cause.String(), cause.Cause.String())
			require.Equal(t, before, stats(t, m, "GPU:0"), "no figure has changed")
			require.Equal(t, taken, d.taken(t, 0))
			require.NoError(t, m.Check())
			d.SetFaults()
		})
	}
}

// Only a device that is full is a reason to look at other processes.
func TestOutOfMemoryDescribesOtherProcesses(t *testing.T) {
	for _, row := range []struct {
		name   string
		faults []faults.Fault
		limit  float64
		want   bool
	}{
		{"the device is full", nil, 100, true},
		{"the limit is reached", nil, 1, false},
		{"the device is broken", []faults.Fault{faults.Seeded(1, 0, gpu.ErrorIllegalAddress)}, 100, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, d := initialized(t, "T4:1GiB", simulated.Options{UsedBytes: gib - 3*mib}, nil, []float64{row.limit})
			m.DescribeProcesses(func(d gpu.Device) string { return " Others use " + d.Name + "." }, false)
			d.SetFaults(row.faults...)
			_, err := m.Allocate(0, 4*mib, 0)
			must.Fail(t, status.ResourceExhausted, err)
			require.Equal(t, row.want, strings.HasSuffix(err.Error(), " on this GPU. Others use Tesla T4."), "%v", err)
			d.SetFaults()
		})
	}
}

// Only gpuconf's own buffers can wait, so that other libraries get no advice to wait.
func TestOutOfMemoryAdvisesTheRequester(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10})
	held := allocate(t, m, 0, 7*mib)
	for library, want := range map[holder.Library]string{
		holder.Gpuconf: "Free memory, pass wait= to gpuconf.memory.allocate to wait until another thread frees " +
			"memory, or raise its limit.",
		holder.Torch: "Free memory, or raise its limit.",
	} {
		_, err := m.Allocate(0, 4*mib, holder.Of(library, 0))
		must.Fail(t, status.ResourceExhausted, err)
		require.True(t, strings.HasSuffix(err.Error(), "on Tesla T4. "+want), "%v", err)
	}
	require.NoError(t, m.Free(held.Addr))
}

// A request that failed for lack of memory succeeds once there is enough.
func TestOutOfMemoryPasses(t *testing.T) {
	m, d := initialized(t, "T4:100MiB", simulated.Options{NoVMM: true}, config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
		[]float64{80, 80})
	block := allocate(t, m, 1, 70*mib)
	_, err := m.Allocate(0, 40*mib, 0)
	must.Fail(t, status.ResourceExhausted, err)
	require.NoError(t, m.Free(block.Addr))
	_, err = m.Allocate(0, 40*mib, 0)
	must.Fail(t, status.ResourceExhausted, err, "GPU:1 has reserved 80.00MiB (83886080 bytes) of it and uses 0 bytes.")
	require.Equal(t, 80*mib, d.taken(t, 0), "GPU:1 keeps its region, so the card has no room yet")

	require.NoError(t, m.Free(allocate(t, m, 0, 10*mib).Addr))
}
