package devmgr_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/simulated"
)

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
			require.NoError(t, m.Initialize(config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": tt.growth}, "main.py:1 (test)"))
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
