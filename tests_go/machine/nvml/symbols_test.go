package nvml_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/attempt"
)

const packageFolder = "../../../gocore/machine/nvml"

// TestEveryFunctionThatGoNVMLCallsHasATrampoline reads the source of the pinned go-nvml.
func TestEveryFunctionThatGoNVMLCallsHasATrampoline(t *testing.T) {
	version, source := goNVML(t)
	symbols := attempt.Get(os.ReadFile(filepath.Join(packageFolder, "symbols.h")))
	require.Contains(t, string(symbols), "from go-nvml "+version+";",
		"run make generate")

	files := attempt.Get(filepath.Glob(filepath.Join(source, "pkg", "nvml", "*.go")))
	called := map[string]bool{}
	for _, file := range files {
		text := attempt.Get(os.ReadFile(file))
		for _, call := range regexp.MustCompile(`\bC\.(nvml\w+)\(`).FindAllSubmatch(text, -1) {
			called[string(call[1])] = true
		}
	}
	require.Greater(t, len(called), 400)
	var defined []string
	for _, line := range regexp.MustCompile(`(?m)^(?:STATUS|TEXT)\((\w+)\)$`).FindAllSubmatch(symbols, -1) {
		defined = append(defined, string(line[1]))
		require.True(t, called[string(line[1])], "no code calls %s", line[1])
	}
	require.Len(t, slices.Compact(defined), len(called), "a function is missing, or there twice")
}

// goNVML returns the version of go-nvml in go.mod and the location of its source.
func goNVML(t *testing.T) (version, folder string) {
	t.Helper()
	out := attempt.Get(exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}",
		"github.com/NVIDIA/go-nvml").Output())
	version, folder, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	if folder == "" {
		t.Skip("go-nvml's source is not downloaded")
	}
	return version, folder
}
