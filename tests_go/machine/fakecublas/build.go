// Package fakecublas builds and controls the fake cuBLAS in libcublas/: a real libcublas.so that needs no GPU and runs
// on the driver of package fakecuda.
package fakecublas

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"gpuconf/tests_go/attempt"
)

// Options select the library to build. The zero value is version 12, with all functions that gpuconf uses.
type Options struct {
	Major   int
	Missing []string // exported functions to leave out
}

// Build compiles libcublas.so and libcublasLt.so of a major version into folder. It needs a C compiler: $CC, or cc.
// build.py does the same.
func Build(folder string, options Options) (err error) {
	defer attempt.Catch(&err)
	_, file, _, _ := runtime.Caller(0)
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(file), "libcublas", "*.c"))
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("no source beside %s: %w", file, err)
	}
	major := options.Major
	if major == 0 {
		major = 12
	}
	empty, script := filepath.Join(folder, "empty.c"), filepath.Join(folder, "exports.map")
	exports := "{ global: cublas*; fakecublas_*; local: " + strings.Join(append(options.Missing, "*"), "; ") + "; };\n"
	for name, text := range map[string]string{empty: "extern int cublasLt_is_here; int cublasLt_is_here = 1;\n",
		script: exports} {
		attempt.Do(os.WriteFile(name, []byte(text), 0o600))
	}
	light := fmt.Sprintf("libcublasLt.so.%d", major)
	attempt.Do(compile(folder, light, empty))
	// Like the real one it needs the other library; unlike the real one, it does not know where that is.
	library := fmt.Sprintf("libcublas.so.%d", major)
	args := append(sources, "-fvisibility=hidden", fmt.Sprintf("-DFAKECUBLAS_MAJOR=%d", major),
		"-Wl,--version-script="+script,
		"-Wl,--no-as-needed", filepath.Join(folder, light), "-lpthread", "-ldl")
	attempt.Do(compile(folder, library, args...))
	return os.Remove(empty)
}

func compile(folder, soname string, args ...string) error {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	all := append(strings.Fields(compiler), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O0", "-fPIC", "-shared",
		"-Wl,-soname,"+soname,
		"-o", filepath.Join(folder, soname))
	all = append(all, args...)
	output, err := exec.Command(all[0], all[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the fake %s: %w\n%s", soname, err, output)
	}
	return nil
}
