package config_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"gpuconf/gocore/tf/config"
)

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
