// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"gpuconf/gocore/machine/gpu"
)

// A process that has loaded NVIDIA's driver cannot simulate GPUs any more, because the driver stays loaded. So where
// the driver is installed and the machine seems to have no GPU, as in many containers, another process asks it first.
// Elsewhere that would only take time: nothing is loaded without a driver, and with a GPU the program goes on to use
// it, and would start the driver twice.

// question prints the result of cuInit and the number of GPUs.
const question = `
import ctypes, os, sys
visible = sys.argv[1]
os.environ.pop("CUDA_VISIBLE_DEVICES", None)
if visible[:1] == "=":
    os.environ["CUDA_VISIBLE_DEVICES"] = visible[1:]
for path in sys.argv[2:]:
    try:
        driver = ctypes.CDLL(path)
    except OSError:
        continue
    count = ctypes.c_int()
    result = driver.cuInit(0)
    print(result, result or driver.cuDeviceGetCount(ctypes.byref(count)), count.value)
    break
`

// questionName is an option without effect, by which jobs/descendants.py recognizes the process.
const questionName = "gpuconf-question"

const patience = 10 * time.Second

// interpreter matches the name of a file that takes Python's options. A program that embeds Python is sys.executable,
// too.
var interpreter = regexp.MustCompile(`^(python|pypy)[0-9.]*t?$`)

// HasNoDevice reports whether NVIDIA's driver is installed and finds no GPU, without loading it into this process. It
// returns false where that is not known. python is the path of an interpreter, searched is LD_LIBRARY_PATH, and visible
// is CUDA_VISIBLE_DEVICES, nil if that is not set.
func HasNoDevice(python, searched string, visible *string) bool {
	if !interpreter.MatchString(filepath.Base(python)) || isLoaded() || seemsToHaveDevice() || !isInstalled(searched) {
		return false
	}
	shown := ""
	if visible != nil {
		shown = "=" + *visible
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ask := exec.CommandContext(ctx, python, append([]string{"-I", "-S", "-B", "-X", questionName, "-c", question,
		shown}, candidates...)...)
	ask.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes when the thread ends
	defer runtime.UnlockOSThread()
	answer, err := ask.Output()
	var started, counted, count int
	if err != nil {
		return false
	}
	if _, err := fmt.Sscan(string(answer), &started, &counted, &count); err != nil {
		return false
	}
	none := int(gpu.ErrorNoDevice)
	return started == none || counted == none || (counted == 0 && count == 0)
}

func isLoaded() bool {
	library.Lock()
	defer library.Unlock()
	return library.version != 0 || otherDriver() != ""
}

// traces are what the kernel's driver leaves: of a server or desktop, under WSL, on Tegra. Not /dev/nvidiactl, which
// cuInit makes for root without any GPU.
var traces = []string{"/dev/nvidia[0-9]*", "/proc/driver/nvidia", "/sys/module/nvidia", "/dev/dxg", "/dev/nvmap",
	"/dev/nvgpu"}

// seemsToHaveDevice reports whether there is a sign of a GPU of NVIDIA's.
func seemsToHaveDevice() bool {
	for _, pattern := range traces {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return true
		}
	}
	vendors, _ := filepath.Glob("/sys/bus/pci/devices/*/vendor")
	for _, path := range vendors {
		if vendor, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(vendor)) == "0x10de" {
			return true
		}
	}
	return false
}

// isInstalled reports whether the loader is likely to find the library. If it is wrong, the library is loaded as
// everywhere.
func isInstalled(searched string) bool {
	for _, folder := range filepath.SplitList(searched) {
		if exists(filepath.Join(folder, candidates[0])) {
			return true
		}
	}
	for _, path := range candidates[1:] {
		if exists(path) {
			return true
		}
	}
	cache, _ := os.ReadFile("/etc/ld.so.cache")
	return bytes.Contains(cache, []byte("/"+candidates[0]+"\x00"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
