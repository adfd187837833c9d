// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
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
