// Package fakecuda builds and controls the simulated CUDA driver of gocore/sim/cuda: a real libcuda.so.1 that
// needs no GPU.
//
// The loader finds the library through LD_LIBRARY_PATH, which it reads when a process starts. So a test binary builds
// the library, re-executes itself (Exec) or starts itself as a child (Command), and then attaches to the library that
// the code under test has loaded.
package fakecuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/compiled"
)

// Options select the driver to build. The zero value is a driver for CUDA 12.4, with all functions that gpuconf uses.
type Options struct {
	Version int      // in CUDA's form: 11040 is 11.4. Newer functions are left out.
	Missing []string // exported functions to leave out in addition
}

// Source returns the folder of the library's source.
func Source() string { return filepath.Join(compiled.Root(), "gocore", "sim", "cuda") }

// Build compiles libcuda.so.1 into folder. It needs a C compiler: $CC, or cc.
func Build(folder string, options Options) (err error) {
	defer attempt.Catch(&err)
	sources, err := compiled.Sources("gocore/sim/cuda", "gocore/machine/models", "gocore/lease/budget",
		"tests_go/machine/fakecuda/libcuda")
	if err != nil {
		return err
	}
	args := append(compiled.Compiler(), "-shared", "-Wl,-soname,libcuda.so.1", "-Wl,-z,nodelete", "-o",
		filepath.Join(folder, "libcuda.so.1"))
	version := options.Version
	if version == 0 {
		version = 12040
	}
	newer := attempt.Get(newerThan(version))
	if missing := append(newer, options.Missing...); len(missing) > 0 {
		script := filepath.Join(folder, "exports.map")
		text := "{ global: cu*; fakecuda_*; gpuconf_*; local: " + strings.Join(missing, "; ") +
			"; *; };\n"
		attempt.Do(os.WriteFile(script, []byte(text), 0o600))
		args = append(args, "-Wl,--version-script="+script)
	}
	flags := []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O0", "-fPIC", "-fvisibility=hidden",
		"-DGPUCONF_TEST_HOOKS"}
	defines := []string{fmt.Sprintf("FAKECUDA_DEFAULT_VERSION=%d", version)}
	objects := attempt.Get(compiled.Objects(sources, flags, defines))
	args = append(append(args, objects...), "-lpthread", "-ldl")
	output, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the fake CUDA driver: %w\n%s", err, output)
	}
	return nil
}

var form = regexp.MustCompile(`(?m)^FORM\(\w+, (\w+), (\d+)`)

// newerThan returns the functions that a driver of this version does not export yet.
func newerThan(version int) ([]string, error) {
	table, err := os.ReadFile(filepath.Join(Source(), "functions.h"))
	var names []string
	for _, row := range form.FindAllStringSubmatch(string(table), -1) {
		if since, _ := strconv.Atoi(row[2]); since > version {
			names = append(names, row[1])
		}
	}
	return names, err
}

// Environ returns the environment of this process with LD_LIBRARY_PATH set to folder, and with more, each as
// "NAME=value". Without a folder the loader finds the machine's own driver, if any.
func Environ(folder string, more ...string) []string {
	var environ []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name != "LD_LIBRARY_PATH" && name != "CUDA_VISIBLE_DEVICES" && !strings.HasPrefix(name, "FAKECUDA_") {
			environ = append(environ, entry)
		}
	}
	if folder != "" {
		environ = append(environ, "LD_LIBRARY_PATH="+folder)
	}
	return append(environ, more...)
}
