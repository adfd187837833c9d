package nvml_test

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/attempt"
)

// TestTrampolinesAssembleOnBothProcessors needs a compiler for the other processor, gcc-aarch64-linux-gnu or
// gcc-x86-64-linux-gnu; it skips a processor without one.
func TestTrampolinesAssembleOnBothProcessors(t *testing.T) {
	for _, row := range []struct{ processor, compiler string }{
		{"amd64", "x86_64-linux-gnu-gcc"},
		{"arm64", "aarch64-linux-gnu-gcc"},
	} {
		t.Run(row.processor, func(t *testing.T) {
			compiler, err := exec.LookPath(row.compiler)
			if err != nil {
				t.Skip("needs " + row.compiler)
			}
			object := filepath.Join(t.TempDir(), "trampolines.o")
			source := filepath.Join(packageFolder, "trampolines_"+row.processor+".S")
			out, err := exec.Command(compiler, "-c", "-Wall", "-Werror", "-o", object, source).CombinedOutput()
			require.NoError(t, err, "%s", out)
			file := attempt.Get(elf.Open(object))
			defer func() { require.NoError(t, file.Close()) }()
			require.NotNil(t, file.Section(".note.GNU-stack"), "without it the stack would be executable")
			symbols := attempt.Get(file.Symbols())
			functions := 0
			for _, symbol := range symbols {
				if elf.ST_TYPE(symbol.Info) == elf.STT_FUNC {
					require.Equal(t, elf.STV_HIDDEN, elf.ST_VISIBILITY(symbol.Other), symbol.Name)
					functions++
				}
			}
			require.Greater(t, functions, 400)
		})
	}
}
