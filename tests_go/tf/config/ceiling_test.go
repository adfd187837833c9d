package config_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

func ranked(limit string, rank, ranks int) config.Env {
	return config.Env{"GPUCONF_LIMIT": limit, "LOCAL_RANK": strconv.Itoa(rank), "LOCAL_WORLD_SIZE": strconv.Itoa(ranks)}
}

func TestCeilingsOfRanks(t *testing.T) {
	for _, row := range []struct {
		name        string
		gpus, ranks int
		want        [][]uint64 // MiB by rank and GPU
	}{
		{"one rank has everything", 2, 1, [][]uint64{{1200, 1200}}},
		{"a GPU each", 2, 2, [][]uint64{{1200, 0}, {0, 1200}}},
		{"ranks share one GPU", 1, 3, [][]uint64{{400}, {400}, {400}}},
		{"uneven", 2, 3, [][]uint64{{600, 0}, {0, 1200}, {600, 0}}},
		{"GPUs without a rank", 4, 2, [][]uint64{{1200, 0, 600, 600}, {0, 1200, 600, 600}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for rank, want := range row.want {
				for gpu, bytes := range want {
					ceiling := must.OK(ranked("1200MiB", rank, row.ranks).Ceiling(gpu, row.gpus))(t)
					require.True(t, ceiling.Set)
					require.Equal(t, bytes<<20, ceiling.Bytes, "rank %d, GPU %d", rank, gpu)
				}
			}
		})
	}
}

func TestRanksNeverHaveMoreThanTheCeilingTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Uint64Range(1<<20, 1<<62).Draw(t, "limit")
		gpus, ranks := rapid.IntRange(1, 16).Draw(t, "gpus"), rapid.IntRange(1, 40).Draw(t, "ranks")
		for gpu := range gpus {
			var sum uint64
			for rank := range ranks {
				sum += must.OK(ranked(strconv.FormatUint(limit, 10), rank, ranks).Ceiling(gpu, gpus))(t).Bytes
			}
			require.LessOrEqual(t, sum, limit)
			require.Greater(t, sum+uint64(ranks), limit, "no more than the remainder of a division is lost")
		}
	})
}

func TestInvalidRanksAreIgnored(t *testing.T) {
	for _, env := range []config.Env{
		{"LOCAL_RANK": "1"}, {"LOCAL_WORLD_SIZE": "2"}, ranked("", 2, 2), ranked("", -1, 2), ranked("", 0, 0),
		{"LOCAL_RANK": "one", "LOCAL_WORLD_SIZE": "2"},
	} {
		env["GPUCONF_LIMIT"] = "1000MiB"
		require.EqualValues(t, 1000<<20, must.OK(env.Ceiling(0, 1))(t).Bytes, fmt.Sprint(env))
	}
}

func TestAnInvalidCeilingIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"0": "must be at least 1 MiB, such as '6GiB'", "512KiB": "must be at least 1 MiB",
		"-1": "is not a size", "ten": "is not a size", "1e9": "is not a size",
		"9223372036854775808": "is too large: at most 2**63 - 1 bytes",
	} {
		must.Fail(t, status.InvalidArgument, must.Err(config.Env{"GPUCONF_LIMIT": text}.Ceiling(0, 1)),
			fmt.Sprintf("GPUCONF_LIMIT=%q %s", text, want))
	}
	for _, env := range []config.Env{nil, {"GPUCONF_LIMIT": ""}} {
		require.False(t, must.OK(env.Ceiling(0, 1))(t).Set)
	}
}

// In whole MiB, as NVIDIA's hook takes it; the lower of the two limits holds, and is the one that is named.
func TestTheContainersLimitIsACeiling(t *testing.T) {
	const most, request = "NVIDIA_GPU_MEMORY_LIMIT", "NVIDIA_GPU_MEMORY_REQUEST"
	for _, row := range []struct {
		env   config.Env
		bytes uint64
		names string
	}{
		{config.Env{most: "2048"}, 2 * gib, most},
		{config.Env{most: "2048", request: "2048", "GPUCONF_LIMIT": "3GiB", "GPUCONF_LEASE": "1"}, 2 * gib, most},
		{config.Env{most: "2048", "GPUCONF_LIMIT": "1GiB"}, gib, "GPUCONF_LIMIT"},
		{config.Env{most: "2048", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, gib, most},
	} {
		ceiling := must.OK(row.env.Ceiling(0, 1))(t)
		require.Equal(t, row.bytes, ceiling.Bytes, fmt.Sprint(row.env))
		require.Contains(t, ceiling.Raise(), "raise "+row.names)
		_, notices := ceiling.Lower("GPU:0", 4*gib, 0)
		require.Contains(t, notices[0].Text, "which "+row.names+" leaves for it")
	}
	for _, text := range []string{"12abc", "-1", " 1024", "0", "+1", "1_0", "8796093022208", "99999999999999999999"} {
		for _, env := range []config.Env{{most: text}, {most: "8", request: text}} {
			_, err := env.Ceiling(0, 1)
			require.Equal(t, status.InvalidArgument, status.CodeOf(err), text)
			require.ErrorContains(t, err, fmt.Sprintf("=%q must be a number of MiB, at least 1", text))
		}
	}
	_, err := config.Env{most: "2048", request: "4096"}.Ceiling(0, 1)
	require.ErrorContains(t, err, "NVIDIA_GPU_MEMORY_REQUEST=4096 is more than NVIDIA_GPU_MEMORY_LIMIT=2048")
}

func TestALimitIsLoweredToWhatIsLeft(t *testing.T) {
	ceiling := must.OK(config.Env{"GPUCONF_LIMIT": strconv.Itoa(6 * gib)}.Ceiling(0, 1))(t)
	limit, notices := ceiling.Lower("GPU:0", 4*gib, 0)
	require.EqualValues(t, 4*gib, limit)
	require.Empty(t, notices)

	limit, notices = ceiling.Lower("GPU:1", 4*gib, 4*gib)
	require.EqualValues(t, 2*gib, limit)
	require.Equal(
		t, []config.Notice{{Level: "warning", Text: "The limit of GPU:1 is lowered from 4.00GiB to 2.00GiB, which " +
			"GPUCONF_LIMIT leaves for it."}}, notices)

	rank := must.OK(ranked(strconv.Itoa(6*gib), 1, 2).Ceiling(0, 2))(t)
	limit, notices = rank.Lower("GPU:0", gib, 0)
	require.Zero(t, limit)
	require.Contains(t, notices[0].Text, "this GPU belongs to LOCAL_RANK 0, and this process is LOCAL_RANK 1.")
}

// limits returns a configuration of one logical device with a limit in bytes, or else in MiB.
func limits(bytes uint64, mib float64) config.LogicalConfigs {
	item := config.LogicalConfig{LimitBytes: &bytes}
	if bytes == 0 {
		item = config.LogicalConfig{MemoryLimitMiB: &mib}
	}
	return config.LogicalConfigs{Items: []config.LogicalConfig{item}}
}

func TestALimitInBytesIsTheLimitOfThePool(t *testing.T) {
	for _, bytes := range []uint64{1, 500_000_000, 1<<44 + 1} { // float32 has no 1<<44 + 1
		s := newSession("P2")
		require.NoError(t, s.state.SetLogicalConfigs(arg("g0"), limits(bytes, 0)))
		require.Equal(t, []uint64{bytes}, s.state.Limits(1))
		layout, err := s.state.Layout(s.facts)
		require.NoError(t, err)
		require.Equal(t, bytes, layout.Devices[1].LimitBytes)
	}
	require.ErrorContains(t, newSession("P2").state.SetLogicalConfigs(arg("c"), limits(1<<20, 0)),
		"Setting memory limit on CPU virtual devices is currently not supported")
}

func TestALimitInBytesEqualsTheSameInMiB(t *testing.T) {
	const changed = "Virtual devices cannot be modified after being initialized"
	for _, test := range []struct {
		stored, given config.LogicalConfigs
		err           string
	}{
		{limits(500_000_000, 0), limits(500_000_000, 0), ""},
		{limits(500_000_000, 0), limits(500_000_001, 0), changed},
		{limits(1<<30, 0), limits(0, 1024), ""},
		{limits(0, 1024), limits(1<<30, 0), ""},
		{limits(0, 1024), limits(1<<30+1, 0), changed},
		{limits(500_000_000, 0), limits(0, 500_000_000./(1<<20)), changed}, // truncated to whole MiB
		{limits(500_000_000, 0), config.LogicalConfigs{}, changed},
	} {
		s := newSession("P2")
		require.NoError(t, s.state.SetLogicalConfigs(arg("g0"), test.stored))
		s.state.Initialize("")
		if err := s.state.SetLogicalConfigs(arg("g0"), test.given); test.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, test.err)
		}
	}
}

// TestPartsOfRanks reads the table that tests_py/jobs/test_startup_ranks.py reads for the startup code.
func TestPartsOfRanks(t *testing.T) {
	text, err := os.ReadFile("ranks.table")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		before, after, _ := strings.Cut(strings.TrimSpace(line), " : ")
		words := strings.Fields(before)
		gpus, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatal(err)
		}
		env := config.Env{"GPUCONF_LIMIT": "840MiB", "LOCAL_RANK": given(words[0]), "LOCAL_WORLD_SIZE": given(words[1])}
		for ordinal, want := range strings.Fields(after) {
			got, err := env.Ceiling(ordinal, gpus)
			if err != nil || strconv.FormatUint(got.Bytes>>20, 10) != want {
				t.Errorf("%s: GPU %d has %d, %v; want %s", before, ordinal, got.Bytes, err, want)
			}
		}
	}
	if rows < 50 {
		t.Errorf("%d rows", rows)
	}
}

func given(word string) string {
	if word == "-" {
		return ""
	}
	return word
}
