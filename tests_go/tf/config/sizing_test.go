package config_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

const gib = 1 << 30

// Case 159: TensorFlow's numbers. A row without a capability applies to every one.
func TestDefaultLimits(t *testing.T) {
	for _, row := range []struct {
		available uint64
		major     []int
		limit     uint64
		shownMiB  uint64
	}{
		{104_857_600, []int{3, 6, 7, 8, 9, 12}, 104_857_600, 100},
		{235_929_600, []int{3, 6, 7, 8, 9, 12}, 235_929_600, 225},
		{235_929_601, []int{3, 6, 7, 8, 9, 12}, 1, 0},
		{2_147_483_647, []int{3, 6, 7, 8, 9, 12}, 1_911_554_047, 1822},
		{2_147_483_648, []int{5, 6}, 1_623_195_648, 1548},
		{2_147_483_648, []int{7}, 1_046_478_848, 998},
		{2_147_483_648, []int{8}, 536_870_912, 512},
		{2_147_483_648, []int{9, 10}, 260_046_848, 248},
		{8_589_934_592, []int{7}, 7_488_929_792, 7142},
		{17_179_869_184, []int{8}, 15_569_256_448, 14848},
		{85_899_345_920, []int{8}, 84_288_733_184, 80384},
		{85_899_345_920, []int{9}, 84_011_909_120, 80120},
		{150_000_000_000, []int{9, 10}, 148_112_563_200, 141251},
		{0, []int{9}, 0, 0},
	} {
		for _, major := range row.major {
			limit, notices := must.OK2(config.DefaultLimit(config.Memory{
				AvailableBytes: row.available, TotalBytes: 1 << 40, ComputeMajor: major,
			}, nil))(t)
			require.Empty(t, notices)
			require.Equal(t, row.limit, limit, "%d bytes available, capability %d", row.available, major)
			require.Equal(t, row.shownMiB, limit>>20)
		}
	}
}

func TestFractionIsOfTheTotalAndLeavesNoReserve(t *testing.T) {
	memory := config.Memory{AvailableBytes: 1000, TotalBytes: 16_945_512_448, ComputeMajor: 9,
		Sizing: config.Sizing{Fraction: 0.4}}
	limit, notices := must.OK2(config.DefaultLimit(memory, nil))(t)
	require.Empty(t, notices)
	require.EqualValues(t, 6_778_204_979, limit)

	memory.Fraction, memory.ComputeMajor = 1.2, 6 // case 160: more than the GPU has, with unified memory
	limit, _ = must.OK2(config.DefaultLimit(memory, nil))(t)
	require.EqualValues(t, 20_334_614_937, limit)

	memory.ComputeMajor = 5
	_, _, err := config.DefaultLimit(memory, nil)
	must.Fail(t, status.Internal, err)
	require.EqualError(t, err, "Unified memory on GPUs with compute capability lower than 6.0 (pre-Pascal class GPUs) "+
		"does not support oversubscription.")

	memory.ComputeMajor = 9
	for _, fraction := range []float64{-0.1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		memory.Fraction = fraction
		_, _, err = config.DefaultLimit(memory, nil)
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", fraction)
	}
}

// Case 161.
func TestSystemMemoryVariable(t *testing.T) {
	for _, row := range []struct {
		name, text string
		memory     config.Memory
		limit      uint64
		notice     string
	}{
		{"a reserve of one's own", "100", config.Memory{AvailableBytes: gib}, gib - 100<<20, ""},
		{"nothing reserved", "0", config.Memory{AvailableBytes: gib}, gib, ""},
		{"everything reserved", "1024", config.Memory{AvailableBytes: gib}, 0, ""},
		{"blanks and a sign", " +100\n", config.Memory{AvailableBytes: gib}, gib - 100<<20, ""},
		{"it replaces a fraction", "100", config.Memory{AvailableBytes: gib, TotalBytes: 2 * gib,
			Sizing: config.Sizing{Fraction: 0.5}}, gib - 100<<20, ""},
		{"set to nothing", "", config.Memory{AvailableBytes: gib}, gib - 225<<20, ""},
		{"more than there is", "2048", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory 2.00GiB is larger than the available memory of 1.00GiB. The " +
				"request is ignored."},
		{"more than there could be", "9223372036854775807", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory 9223372036854775807MiB is larger than the available memory of " +
				"1.00GiB. The request is ignored."},
		{"not a number", "abc", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory abc is invalid. The request will be ignored."},
		{"negative", "-1", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory -1 is invalid. The request will be ignored."},
		{"a fraction of MiB", "1.5", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory 1.5 is invalid. The request will be ignored."},
		{"too long a number", "9223372036854775808", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory 9223372036854775808 is invalid. The request will be ignored."},
		{"hexadecimal", "0x1", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory 0x1 is invalid. The request will be ignored."},
		{"an underscore", "1_0", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory 1_0 is invalid. The request will be ignored."},
		{"a blank behind the sign", "+ 1", config.Memory{AvailableBytes: gib}, gib - 225<<20,
			"The requested reserved device memory + 1 is invalid. The request will be ignored."},
	} {
		limit, notices, err := config.DefaultLimit(row.memory, config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": row.text})
		require.NoError(t, err, row.name)
		require.Equal(t, row.limit, limit, row.name)
		if row.notice == "" {
			require.Empty(t, notices, row.name)
		} else {
			require.Equal(t, []config.Notice{{Level: "warning", Text: row.notice}}, notices, row.name)
		}
	}
}

func TestNumbersOfBytesInNotices(t *testing.T) {
	for available, want := range map[uint64]string{
		0: "0B", 1023: "1023B", 1024: "1.0KiB", 1536: "1.5KiB", 1_000_000: "976.6KiB", 1_048_575: "1024.0KiB",
		1_048_576: "1.00MiB", 1_572_864: "1.50MiB", 85_899_345_920: "80.00GiB", 1 << 60: "1.00EiB",
	} {
		_, notices := must.OK2(config.DefaultLimit(config.Memory{AvailableBytes: available},
			config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": strconv.Itoa(1 << 43)}))(t)
		require.Contains(t, notices[0].Text, "larger than the available memory of "+want+".")
	}
}

// Case 162, and the meaning of a limit in MiB.
func TestExplicitLimits(t *testing.T) {
	for mib, want := range map[float64]uint64{
		0: 0, 0.5: 0, 0.99: 0, 1: 1, 10.9: 10, 123: 123, 1e6: 1e6,
		16777217:   16777216, // float32
		0.99999999: 1,
	} {
		require.Equal(t, want<<20, must.OK(config.ExplicitLimit(mib))(t), "%v MiB", mib)
	}
	for _, mib := range []float64{-1, -1e-300, math.NaN(), math.Inf(1), math.Inf(-1), 1 << 43, 1<<43 - 1, 1e300} {
		require.Equal(t, status.Value, status.CodeOf(must.Err(config.ExplicitLimit(mib))), "%v MiB", mib)
	}
}

func TestLimitsStayInRange(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		available := rapid.Uint64Range(0, 1<<50).Draw(r, "available")
		env := config.Env{}
		if rapid.Bool().Draw(r, "set") {
			env["TF_DEVICE_MIN_SYS_MEMORY_IN_MB"] = rapid.String().Draw(r, "text")
		}
		limit, _, err := config.DefaultLimit(config.Memory{
			AvailableBytes: available, ComputeMajor: rapid.IntRange(3, 12).Draw(r, "major"),
		}, env)
		require.NoError(r, err)
		require.LessOrEqual(r, limit, available, "never more than there is")

		mib := rapid.Float64().Draw(r, "MiB")
		if limit, err = config.ExplicitLimit(mib); err == nil {
			require.Zero(r, limit%(1<<20))
			require.LessOrEqual(r, limit, uint64(math.MaxInt64))
			require.GreaterOrEqual(r, mib, 0.0)
		}
	})
}

// A host without memory stops working, so the default limit leaves it an eighth of what it shares with a GPU. What a
// caller sets holds.
func TestTheHostKeepsMemoryThatItShares(t *testing.T) {
	shared := config.Memory{AvailableBytes: 100 * gib, TotalBytes: 128 * gib, ComputeMajor: 12, Shared: true}
	limit, _ := must.OK2(config.DefaultLimit(shared, nil))(t)
	require.EqualValues(t, 84*gib, limit)

	limit, _ = must.OK2(config.DefaultLimit(shared, config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "1024"}))(t)
	require.EqualValues(t, 99*gib, limit)

	small := shared
	small.TotalBytes, small.AvailableBytes = 8*gib, 8*gib
	limit, _ = must.OK2(config.DefaultLimit(small, nil))(t)
	require.EqualValues(t, 8*gib-1800<<20, limit, "TensorFlow's reserve is more")
}
