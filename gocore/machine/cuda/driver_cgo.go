// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra -Wno-unused-parameter
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "calls.h"
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// driver is a gpu.Driver over the loaded library. The caller of Open closes it.
type driver struct {
	version     C.int
	machine     unsafe.Pointer // a simulated one (simulated_cgo.go), nil for the loaded driver's own; never changes
	devices     []*device      // the slice never changes
	granularity uint64         // the largest of the devices' minimum granularities; never changes

	mu     sync.Mutex // guards all below, and the fields of a device that say so
	idle   *sync.Cond // signaled when no call is inside a device or the driver, or when a context change is over
	closed bool
	inside int // calls in progress that need no context

	reservations map[uint64]uint64 // address -> bytes
	handles      map[gpu.Handle]struct{}
	mappings     map[uint64]uint64 // address -> bytes
}

var _ gpu.Driver = (*driver)(nil)

// device is one GPU.
type device struct {
	info           gpu.Device // never changes, nor do the others
	number         C.CUdevice
	card, instance C.CUuuid // equal without MIG

	findPeers sync.Once
	peers     []C.CUdevice // see withPeers

	retains  int    // guarded by driver.mu, as is all below
	changing bool   // its context is being created or released: no call may enter
	context  uint64 // the primary context, while retained
	inside   int    // calls in progress

	reach   spans
	host    spans // page-locked memory
	streams map[gpu.Stream]struct{}
	events  map[gpu.Event]struct{}
	endings []func(entered bool) // registered by AtContextEnd
}

// Open loads the driver and lists the devices. It creates no context.
func Open() (gpu.Driver, error) {
	version, err := load()
	if err != nil {
		return nil, err
	}
	d, err := start(version, nil)
	if err != nil {
		return nil, err
	}
	if path := simulatorLoaded(); path != "" && len(d.devices) == 0 {
		return nil, status.Errorf(status.Unavailable, "this process has simulated GPUs with %s, and a process has one "+
			"driver. Use the real GPUs in another process", path)
	}
	return d, nil
}

// start makes the driver of a machine, nil for the loaded driver's own.
func start(version C.int, machine unsafe.Pointer) (*driver, error) {
	d := &driver{
		version: version, machine: machine,
		reservations: map[uint64]uint64{}, handles: map[gpu.Handle]struct{}{}, mappings: map[uint64]uint64{},
	}
	d.idle = sync.NewCond(&d.mu)
	switch result := C.cudacall_init(d.machine); gpu.Result(result) {
	case 0:
	case gpu.ErrorNoDevice:
		return d, nil
	default:
		return nil, status.Errorf(status.Unavailable, "the CUDA driver failed to start (cuInit): %w",
			startFailure(result))
	}
	answer := C.cudacall_device_count(d.machine)
	if gpu.Result(answer.result) == gpu.ErrorNoDevice {
		return d, nil
	}
	if err := d.failure(answer.result, "cuDeviceGetCount"); err != nil {
		return nil, status.Errorf(status.Unavailable, "%w", err)
	}
	for ordinal := range int(answer.value) {
		g, err := d.describe(ordinal)
		if err != nil {
			return nil, status.Errorf(status.Unavailable, "%w", err)
		}
		d.devices = append(d.devices, g)
	}
	return d, nil
}

// describe reads one device. Open is the only caller.
func (d *driver) describe(ordinal int) (*device, error) {
	var c C.struct_cuda_description
	if err := d.failure(C.cudacall_describe(d.machine, C.int(ordinal), &c), "describe GPU %d",
		uint64(ordinal)); err != nil {
		return nil, err
	}
	name := C.GoString(&c.name[0])
	if c.has_instance == 0 {
		c.instance = c.uuid
	}
	card, instance := uuidOf(&c.uuid), uuidOf(&c.instance)
	least, greatest := priorityRange(c.stream_priorities != 0, int(c.major))
	d.granularity = max(d.granularity, uint64(c.granularity))
	return &device{
		number: c.device, card: c.uuid, instance: c.instance,
		info: gpu.Device{
			Ordinal:          ordinal,
			UUID:             uuidName(card, instance, name),
			PCIBusID:         strings.ToLower(C.GoString(&c.pci_bus_id[0])),
			Name:             name,
			ComputeMajor:     int(c.major),
			ComputeMinor:     int(c.minor),
			Multiprocessors:  int(c.multiprocessors),
			TotalBytes:       uint64(c.total_bytes),
			MemoryKind:       memoryKind(c.integrated != 0, c.host_page_tables != 0),
			LeastPriority:    least,
			GreatestPriority: greatest,
			VMM:              c.virtual_memory != 0,
			StreamMemOps:     c.stream_mem_ops != 0,
			Managed:          c.managed != 0,
			Oversubscribes:   c.oversubscribes != 0,
		},
		streams: map[gpu.Stream]struct{}{},
		events:  map[gpu.Event]struct{}{},
	}, nil
}

// memoryKind distinguishes the kinds. A GB10 has both attributes.
func memoryKind(integrated, hostPageTables bool) gpu.MemoryKind {
	switch {
	case integrated:
		return gpu.Unified
	case hostPageTables:
		return gpu.Coherent
	}
	return gpu.Dedicated
}

func uuidOf(c *C.CUuuid) (u uuid) {
	for i, b := range c.bytes {
		u[i] = byte(b)
	}
	return u
}

// Devices returns the GPUs as they were when the driver was opened: CUDA's own list never changes in a process.
func (d *driver) Devices() ([]gpu.Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, gpu.ErrorDeinitialized
	}
	infos := make([]gpu.Device, len(d.devices))
	for i, g := range d.devices {
		infos[i] = g.info
	}
	return infos, nil
}

// HostVisible returns false: host code must not access device memory.
func (d *driver) HostVisible() bool { return false }

// begin starts a call that needs no context; finish ends it. Close waits for it: the machine of a call must outlive it.
func (d *driver) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return gpu.ErrorDeinitialized
	}
	d.inside++
	return nil
}

// beginOn starts a call about a device that needs no context; finish ends it.
func (d *driver) beginOn(ordinal int) (*device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.deviceLocked(ordinal)
	if err != nil {
		return nil, err
	}
	d.inside++
	return g, nil
}

func (d *driver) finish() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	if d.inside == 0 {
		d.idle.Broadcast()
	}
}

// enter starts a call in a device's context, which stays until leave.
func (d *driver) enter(ordinal int) (*device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.contextLocked(ordinal)
	if err != nil {
		return nil, err
	}
	g.inside++
	return g, nil
}

func (d *driver) leave(g *device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g.inside--
	if g.inside == 0 {
		d.idle.Broadcast()
	}
}

// in makes a call in a device's context. what describes the call, for a failure; its number is the ordinal.
func (d *driver) in(ordinal int, what string, call func(context C.uint64_t) C.CUresult) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	return d.failure(call(C.uint64_t(g.context)), what, uint64(ordinal))
}

// ask is in for a call with an answer.
func (d *driver) ask(ordinal int, what string, call func(context C.uint64_t) C.struct_cuda_answer) (
	answer C.struct_cuda_answer, err error) {
	err = d.in(ordinal, what, func(context C.uint64_t) C.CUresult {
		answer = call(context)
		return answer.result
	})
	return answer, err
}

// created keeps account of what a call in a device's context creates; kept is the device's map of such.
func created[K ~uint64](d *driver, ordinal int, what string, kept func(*device) map[K]struct{},
	create func(context C.uint64_t) C.struct_cuda_answer) (resource K, err error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer d.leave(g)
	answer := create(C.uint64_t(g.context))
	if err := d.failure(answer.result, what, uint64(ordinal)); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	kept(g)[K(answer.value)] = struct{}{}
	return K(answer.value), nil
}

// surrender frees a resource that is in a map of the accounting (invariant 5); unknown is the error if it is not.
func surrender[K comparable, V any](d *driver, kept map[K]V, resource K, unknown func() error,
	free func() error) error {
	d.mu.Lock()
	value, ok := kept[resource]
	delete(kept, resource)
	d.mu.Unlock()
	if !ok {
		return unknown()
	}
	err := free()
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		kept[resource] = value
	}
	return err
}

// surrenderSpan is surrender for an allocation. The numbers of unknown are its address and the ordinal.
func (d *driver) surrenderSpan(kept *spans, addr uint64, unknown string, ordinal int, free func() error) error {
	d.mu.Lock()
	bytes, ok := kept.takeAllocation(addr)
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf(unknown+": %w", addr, ordinal, gpu.ErrorInvalidValue)
	}
	err := free()
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		kept.addAllocation(addr, bytes)
	}
	return err
}

func (d *driver) deviceLocked(ordinal int) (*device, error) {
	if d.closed {
		return nil, gpu.ErrorDeinitialized
	}
	if ordinal < 0 || ordinal >= len(d.devices) {
		return nil, fmt.Errorf("unknown GPU %d, the driver has %d: %w", ordinal, len(d.devices), gpu.ErrorInvalidDevice)
	}
	return d.devices[ordinal], nil
}

func (d *driver) contextLocked(ordinal int) (*device, error) {
	g, err := d.deviceLocked(ordinal)
	if err != nil {
		return nil, err
	}
	if g.retains == 0 || g.changing {
		return nil, fmt.Errorf("GPU %d has no retained context: %w", ordinal, gpu.ErrorInvalidContext)
	}
	return g, nil
}

// Close waits for calls in progress, frees what is left, and releases the contexts. The error lists what CUDA refused
// to free.
func (d *driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	for slices.ContainsFunc(d.devices, func(g *device) bool { return g.inside > 0 || g.changing }) || d.inside > 0 {
		d.idle.Wait()
	}
	d.mu.Unlock()

	// From here on no other call uses the accounting.
	failed := d.dropVirtual()
	for _, g := range d.devices {
		if g.retains > 0 {
			failed = errors.Join(failed, d.dropContext(g))
		}
	}
	return failed
}

// candidates are the names of the library, in the order in which they are tried. The loader finds the first where the
// driver's package or LD_LIBRARY_PATH put it, or where another library of the process loaded it from. The others, of
// WSL and NixOS, are outside the loader's search path. libcuda.so is not a candidate: it is the toolkit's stub for
// linking.
var candidates = []string{
	"libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/run/opengl-driver/lib/libcuda.so.1",
}

// library is process-wide: the table of functions.
var library struct {
	sync.Mutex
	version   C.int  // 0 until the table is filled
	simulator string // its path if the table is of the simulator that OpenSimulator has loaded
	noOther   noOther
}

// load fills the table from the first candidate that can be loaded. After a failure a later call tries again.
func load() (version C.int, err error) {
	library.Lock()
	defer library.Unlock()
	if library.version != 0 {
		return library.version, nil
	}
	var complaints []string
	for _, path := range candidates {
		var answer C.struct_cuda_load_answer
		name := C.CString(path)
		C.cuda_load(name, &answer)
		C.free(unsafe.Pointer(name))
		switch answer.state {
		case C.CUDA_LOADED:
			library.version = answer.version
			return answer.version, nil
		case C.CUDA_NO_LIBRARY:
			complaints = append(complaints, C.GoString(&answer.text[0]))
		default:
			return 0, unusable(path, &answer)
		}
	}
	return 0, status.Errorf(status.Unavailable, "CUDA is not available (%s). The library comes with the NVIDIA "+
		"driver. In a container it comes from the host: start the container with GPU access, and include `compute` in "+
		"NVIDIA_DRIVER_CAPABILITIES",
		strings.Join(complaints, "; "))
}

// unusable returns the error for a library that loaded but cannot be used.
func unusable(path string, answer *C.struct_cuda_load_answer) error {
	switch answer.state {
	case C.CUDA_TOO_OLD:
		return status.Errorf(status.Unavailable, "the NVIDIA driver is too old: %s supports CUDA %s, and gpuconf "+
			"needs %s or newer (driver 450 or newer). Update the driver",
			path, version(answer.version), version(C.OLDEST_CUDA))
	case C.CUDA_INCOMPLETE:
		return status.Errorf(status.Unavailable, "%s reports CUDA %s, but it lacks %s, which every NVIDIA driver "+
			"since CUDA %s has. Check that it belongs to the NVIDIA driver",
			path, version(answer.version), C.GoString(&answer.text[0]),
			version(C.OLDEST_CUDA))
	}
	if answer.result != 0 {
		return status.Errorf(status.Unavailable, "%s does not report its version: %w", path,
			startFailure(answer.result))
	}
	return status.Errorf(status.Unavailable, "%s is not a CUDA driver: it lacks cuDriverGetVersion", path)
}

// hints are the next step after a failure to start the driver.
var hints = map[gpu.Result]string{
	gpu.ErrorNotInitialized: "a process that was forked after its parent used CUDA cannot use CUDA; start it with " +
		"spawn",
	gpu.ErrorStubLibrary: "this is the CUDA toolkit's stub library for linking, not a driver; remove its folder " +
		"(stubs) from LD_LIBRARY_PATH",
	gpu.ErrorDeviceUnavailable: "the GPU is busy or unavailable; see nvidia-smi",
	gpu.ErrorInvalidDevice:     "a GPU is present but cannot be used; see nvidia-smi and the kernel log",
	gpu.ErrorSystemNotReady:    "the GPU fabric is not ready; check that nvidia-fabricmanager is running",
	gpu.ErrorSystemDriverMismatch: "the library and the kernel driver have different versions; " +
		"after a driver update, restart the machine; in a container, look for a second libcuda",
	gpu.ErrorCompatNotSupportedOnDevice: "the compatibility library (cuda-compat) does not support this GPU or driver",
	gpu.ErrorUnknown: "check that the nvidia_uvm module is loaded and that this user can open /dev/nvidia*; " +
		"this error also occurs after a suspend",
}

// startFailure returns the error for a driver that does not start, with a hint if there is one.
func startFailure(result C.CUresult) error {
	failure := gpu.Result(result)
	if hint := hints[failure]; hint != "" {
		return status.Errorf(status.Unavailable, "%w: %s", failure, hint)
	}
	return failure
}

// failure returns a call's result as an error, nil for success. what is a format that describes the call; its arguments
// are numbers only, so that a successful call does not allocate.
func (d *driver) failure(result C.CUresult, what string, numbers ...uint64) error {
	switch {
	case result == 0:
		return nil
	case result < 0:
		return d.missing(int(-1 - result))
	}
	args := make([]any, len(numbers))
	for i, number := range numbers {
		args[i] = number
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(what, args...), gpu.Result(result))
}

// missing returns the error for a call to a function that the driver lacks.
func (d *driver) missing(symbol int) error {
	info := C.cuda_symbol_info(C.int(symbol))
	return status.Errorf(status.Unimplemented, "%s needs an NVIDIA driver for CUDA %s or newer, but this driver is "+
		"for CUDA %s: %w",
		C.GoString(info.name), version(info.version), version(d.version), gpu.ErrorNotSupported)
}

// noStreamMemOps returns the error for a device or driver without stream memory operations.
func (d *driver) noStreamMemOps(g *device) error {
	if C.cuda_has(C.SYMBOL_cuStreamWriteValue64) == 0 {
		return d.missing(C.SYMBOL_cuStreamWriteValue64)
	}
	return fmt.Errorf("GPU %d (%s) does not support 64-bit stream memory operations: %w", g.info.Ordinal, g.info.Name,
		gpu.ErrorNotSupported)
}

// version formats a CUDA version: 12040 is 12.4.
func version(number C.int) string { return fmt.Sprintf("%d.%d", number/1000, number%1000/10) }
