// SPDX-License-Identifier: Apache-2.0

// The program of client.c in Go: NVML with NVIDIA's go-nvml, and the driver with dlopen.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

static void *cuda;
static int call1(const char *name, void *a) { return ((int (*)(void *))dlsym(cuda, name))(a); }
static int open_cuda(void) { return (cuda = dlopen("libcuda.so.1", RTLD_NOW)) != NULL; }
static int init(void) { return ((int (*)(unsigned))dlsym(cuda, "cuInit"))(0); }
static int device_name(char *out, int bytes) { return ((int (*)(char *, int, int))dlsym(cuda, "cuDeviceGetName"))(out, bytes, 0); }
static int make_current(void) {
	void *context;
	int result = ((int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0);
	return result != 0 ? result : call1("cuCtxSetCurrent", context);
}
static int allocate(uint64_t *at, size_t bytes) { return ((int (*)(uint64_t *, size_t))dlsym(cuda, "cuMemAlloc_v2"))(at, bytes); }
static int info(size_t *available, size_t *total) { return ((int (*)(size_t *, size_t *))dlsym(cuda, "cuMemGetInfo_v2"))(available, total); }
static int to(uint64_t at, const void *from, size_t bytes) {
	return ((int (*)(uint64_t, const void *, size_t))dlsym(cuda, "cuMemcpyHtoD_v2"))(at, from, bytes);
}
static int from(void *out, uint64_t at, size_t bytes) {
	return ((int (*)(void *, uint64_t, size_t))dlsym(cuda, "cuMemcpyDtoH_v2"))(out, at, bytes);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func must(what string, result C.int) {
	if result != 0 {
		fmt.Println(what, result)
		os.Exit(1)
	}
}

func mustNVML(what string, result nvml.Return) {
	if result != nvml.SUCCESS {
		fmt.Println(what, nvml.ErrorString(result))
		os.Exit(1)
	}
}

func main() {
	runtime.LockOSThread() // a context is a thread's
	if C.open_cuda() == 0 {
		fmt.Println("no libcuda.so.1")
		os.Exit(1)
	}
	var count C.int
	var name [96]C.char
	var at, beyond C.uint64_t
	var available, total C.size_t
	written, answer := C.CString("written"), [8]C.char{}
	must("cuInit", C.init())
	countName := C.CString("cuDeviceGetCount")
	must("cuDeviceGetCount", C.call1(countName, unsafe.Pointer(&count)))
	must("cuDeviceGetName", C.device_name(&name[0], 96))
	must("context", C.make_current())
	must("cuMemAlloc", C.allocate(&at, 1<<30))
	refused := C.allocate(&beyond, 40<<30)
	must("cuMemGetInfo", C.info(&available, &total))
	must("cuMemcpyHtoD", C.to(at, unsafe.Pointer(written), 8))
	must("cuMemcpyDtoH", C.from(unsafe.Pointer(&answer[0]), at, 8))
	fmt.Printf("cuda: %d x %s, %d MiB, %d MiB in use, %s, %d\n", count, C.GoString(&name[0]), total>>20, (total-available)>>20,
		C.GoString(&answer[0]), refused)
	mustNVML("nvmlInit", nvml.Init())
	listed, result := nvml.DeviceGetCount()
	mustNVML("count", result)
	device, result := nvml.DeviceGetHandleByIndex(0)
	mustNVML("handle", result)
	deviceName, result := device.GetName()
	mustNVML("name", result)
	memory, result := device.GetMemoryInfo()
	mustNVML("memory", result)
	fmt.Printf("nvml: %d x %s, %d MiB, %d MiB in use\n", listed, deviceName, memory.Total>>20, memory.Used>>20)
}
