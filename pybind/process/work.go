// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/devices/placement"
	"gpuconf/gocore/machine/blas"
	"gpuconf/gocore/machine/cublas"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/host"
	"gpuconf/gocore/tf/config"
	"gpuconf/gocore/tf/graph"
)

// Work runs operations on one Manager's devices.
//
// An eager operation holds mu for reading until its tensor is in the table. Calls that release the devices or change
// their names hold it for writing. So the tensors in the table always belong to devices. Sessions have their own
// devices and are only counted.
type Work struct {
	manager *devmgr.Manager
	memory  host.Memory
	cpu     gpu.Compute                                // the arithmetic in host memory
	compute func(number int, d gpu.Device) gpu.Compute // the arithmetic of a logical GPU
	runs    atomic.Int64                               // session runs in progress

	mu      sync.RWMutex
	devices *graph.Devices       // guarded by mu; for eager operations; nil before initialization
	full    devmgr.View          // guarded by mu; the numbers of devices
	tensors table[*graph.Tensor] // held by Python
	closed  bool                 // guarded by mu

	linesMu  sync.Mutex
	lines    []string        // guarded by linesMu; of the placement log of eager operations
	warnings []config.Notice // guarded by linesMu
}

func (w *Work) machine() placement.Machine {
	return placement.Machine{Manager: w.manager, Memory: &w.memory, CPU: w.cpu, GPU: w.compute, Holder: Holder}
}

// prepareLocked creates the devices for eager operations. The Manager is initialized.
func (w *Work) prepareLocked() error {
	logical, err := w.manager.LogicalDevices()
	if err != nil {
		return err
	}
	gpus := w.manager.LogicalGPUs()
	full := devmgr.View{CPUs: len(logical) - gpus, GPUs: gpus}
	devices, err := w.machine().Devices(full.CPUs, full.GPUs)
	if err != nil {
		return err
	}
	w.devices, w.full = devices, full
	return nil
}

// prepare calls prepareLocked unless that was done.
func (w *Work) prepare() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.devices != nil {
		return nil
	}
	return w.prepareLocked()
}

// Execute runs one operation on tensors given by number, and stores the result. logged reports whether log lines
// or warnings are pending.
func (w *Work) Execute(call graph.Call, inputs []int64) (id int64, logged bool, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if err := w.readyLocked(); err != nil {
		return 0, false, err
	}
	if call.Inputs, err = w.inputs(inputs); err != nil {
		return 0, false, err
	}
	var policy string
	var log bool
	err = w.manager.Inspect(func(s *config.State) error {
		call.SoftPlacement, log, policy = s.Placement()
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	if call.Policy, err = graph.ParsePolicy(policy); err != nil {
		return 0, false, err
	}
	outcome, err := w.devices.Execute(call)
	if err != nil {
		return 0, false, err
	}
	if log || len(outcome.Warnings) > 0 {
		w.queueLines(call.Op, outcome, log)
		logged = true
	}
	return w.tensors.put(outcome.Tensor), logged, nil
}

func (w *Work) readyLocked() error {
	if w.closed {
		return errReset()
	}
	if w.devices == nil {
		return status.Errorf(status.FailedPrecondition,
			"gpuconf is not initialized yet; call gpuconf.config.list_logical_devices() first")
	}
	return nil
}

func (w *Work) inputs(ids []int64) ([]*graph.Tensor, error) {
	tensors := make([]*graph.Tensor, len(ids))
	for i, id := range ids {
		var err error
		if tensors[i], err = w.Tensor(id); err != nil {
			return nil, err
		}
	}
	return tensors, nil
}

// Tensor returns a tensor that Python holds.
func (w *Work) Tensor(id int64) (*graph.Tensor, error) { return w.tensors.get(id, "tensor") }

// Release releases a tensor.
func (w *Work) Release(id int64) error {
	t, err := w.tensors.remove(id, "tensor")
	if err != nil {
		return err
	}
	return t.Release()
}

// HostVisible reports whether a tensor can be read at its address.
func (w *Work) HostVisible(t *graph.Tensor) bool {
	return t.BackingDevice().Type == "CPU" || w.manager.HostVisible()
}

func (w *Work) queueLines(op graph.Op, outcome graph.Outcome, log bool) {
	w.linesMu.Lock()
	defer w.linesMu.Unlock()
	for _, text := range outcome.Warnings {
		w.warnings = append(w.warnings, config.Notice{Level: "warning", Text: text})
	}
	if log {
		w.lines = append(w.lines, w.devices.ExecutingLine(op, outcome.Tensor))
	}
}

// DrainLines returns and clears the placement log of eager operations.
func (w *Work) DrainLines() []string {
	w.linesMu.Lock()
	defer w.linesMu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}

func (w *Work) drainWarnings() []config.Notice {
	w.linesMu.Lock()
	defer w.linesMu.Unlock()
	warnings := w.warnings
	w.warnings = nil
	return warnings
}

// LiveTensors describes the tensors that Python holds.
func (w *Work) LiveTensors() []string {
	tensors := w.tensors.each()
	lines := make([]string, len(tensors))
	for i, t := range tensors {
		shape := ""
		for _, size := range t.Shape() {
			shape += strconv.FormatInt(size, 10) + ", "
		}
		if n := len(t.Shape()); n > 1 {
			shape = shape[:len(shape)-2]
		} else if n == 1 {
			shape = shape[:len(shape)-1]
		}
		lines[i] = fmt.Sprintf("<gpuconf.Tensor: shape=(%s), dtype=%s, device=%s>", shape, t.DType(), t.Device())
	}
	slices.Sort(lines)
	return lines
}

// HostMemory returns the host memory that operations hold.
func (w *Work) HostMemory() (blocks int, bytes uint64) { return w.memory.Stats() }

// end releases the devices with closeDevices, unless a tensor is live or a session is running.
func (w *Work) end(closeDevices func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.unusedLocked(); err != nil {
		return err
	}
	err := closeDevices()
	if !w.manager.Closed() {
		return err
	}
	w.closed = true
	return errors.Join(err, w.memory.Close())
}

// unusedLocked returns an error if the devices are in use.
func (w *Work) unusedLocked() error {
	if n := w.runs.Load(); n > 0 {
		return status.Errorf(status.FailedPrecondition, "operations are running in another thread (%d). Wait for "+
			"them to finish", n)
	}
	if live := w.LiveTensors(); len(live) > 0 {
		const shown = 10
		more := ""
		if len(live) > shown {
			more = fmt.Sprintf("\n  and %d more", len(live)-shown)
			live = live[:shown]
		}
		text := ""
		for _, line := range live {
			text += "\n  " + line
		}
		return status.Errorf(status.FailedPrecondition, "tensors are still in use; drop them first:%s%s", text, more)
	}
	return nil
}

func errReset() error {
	return status.Errorf(status.FailedPrecondition, "the devices that this belongs to were released by a reset")
}

// table maps numbers, by which Python refers to objects, to values. Numbers are never reused. The zero table is empty
// and ready to use.
type table[T any] struct {
	mu     sync.RWMutex
	values map[int64]T // guarded by mu
	last   int64       // guarded by mu
}

func (t *table[T]) put(value T) (id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values == nil {
		t.values = map[int64]T{}
	}
	t.last++
	t.values[t.last] = value
	return t.last
}

// get returns a value; what names its kind in errors.
func (t *table[T]) get(id int64, what string) (T, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	value, ok := t.values[id]
	if !ok {
		return value, errNotThere(what, id)
	}
	return value, nil
}

// remove removes and returns a value; only one caller gets it.
func (t *table[T]) remove(id int64, what string) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok := t.values[id]
	if !ok {
		return value, errNotThere(what, id)
	}
	delete(t.values, id)
	return value, nil
}

// each returns all values, in no particular order.
func (t *table[T]) each() []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	values := make([]T, 0, len(t.values))
	for _, value := range t.values {
		values = append(values, value)
	}
	return values
}

func errNotThere(what string, id int64) error {
	return status.Errorf(status.InvalidArgument, "there is no %s %d: it was released or never existed", what, id)
}

// The variables in which Python passes the folders where pip installs NVIDIA's libraries, those from which it imports
// modules, one per line, and the choice of the BLAS.
const (
	libraryFolders = "GPUCONF_LIBRARY_FOLDERS"
	moduleFolders  = "GPUCONF_MODULE_FOLDERS"
	blasChoice     = "GPUCONF_BLAS"
)

func linesOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// onHost computes in host memory: large products by a BLAS if there is one, all else by package host.
type onHost struct {
	offThread
	library *blas.Library
}

func computeOnHost(env config.Env) gpu.Compute {
	return onHost{offThread: offThread{host.Compute{}}, library: blas.New(env[blasChoice], linesOf(env[moduleFolders]))}
}

// Gemm multiplies two matrices.
func (c onHost) Gemm(g gpu.Gemm) error {
	if done, err := c.library.Gemm(g); done || err != nil {
		return err
	}
	return c.offThread.Gemm(g)
}

// arithmetic returns a function that creates a logical GPU's gpu.Compute: cuBLAS on a real GPU, that of the host on a
// simulated one, whose memory is host memory.
func arithmetic(driver gpu.Driver, m *devmgr.Manager, env config.Env, cpu gpu.Compute) func(number int,
	d gpu.Device) gpu.Compute {
	native, isNative := driver.(cublas.Driver)
	if !isNative {
		return func(int, gpu.Device) gpu.Compute { return cpu }
	}
	library := cublas.New(native, linesOf(env[libraryFolders]))
	return func(number int, d gpu.Device) gpu.Compute { return library.On(d.Ordinal, scratch{m, number}) }
}

// scratch allocates memory from a logical GPU's pool for the duration of an operation.
type scratch struct {
	manager *devmgr.Manager
	number  int
}

// Allocate allocates a block of the pool.
func (s scratch) Allocate(bytes uint64) (addr uint64, free func() error, err error) {
	block, err := s.manager.Allocate(s.number, bytes, Holder())
	return block.Addr, func() error { return s.manager.FreeID(block.Addr, block.ID) }, err
}
