// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"slices"
	"testing"

	"gpuconf/gocore/tf/config"
)

// Programs in C set the variables of 0.2.
func TestFormerNamesAreReadWithALine(t *testing.T) {
	env := config.Env{"GPUCONF_MEMORY_LIMIT": "1GiB", "GPUCONF_ALLOW_GROWTH": "true", "GPUCONF_GROWTH": "false"}
	lines := env.Rename()
	want := []string{
		"GPUCONF_MEMORY_LIMIT is now GPUCONF_LIMIT; 0.4 will ignore the old name",
		"GPUCONF_ALLOW_GROWTH is ignored: GPUCONF_GROWTH, its new name, is set too",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	if len(env) != 2 || env["GPUCONF_LIMIT"] != "1GiB" || env["GPUCONF_GROWTH"] != "false" {
		t.Errorf("renamed to %v", env)
	}
	if again := env.Rename(); again != nil {
		t.Errorf("present names: %q", again)
	}
}
