//go:build cgo && linux && (amd64 || arm64)

package simulated

// #cgo LDFLAGS: -ldl
// #include "steps.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"gpuconf/gocore/machine/gpu"
)

func (m *Machine) live(what string) int {
	name := C.CString(what)
	defer C.free(unsafe.Pointer(name))
	return int(C.steps_live(m.machine, name))
}

func attach() {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	if complaint := C.steps_attach(path); complaint != nil {
		panic(fmt.Sprintf("%s: %s", library, C.GoString(complaint)))
	}
}

func (m *Machine) hold() { C.steps_hold(m.machine) }

// Steppable lists the streams of a device whose next piece of work could run now, in the order of their creation. A
// destroyed stream is listed while it has work.
func (m *Machine) Steppable(ordinal int) (streams []gpu.Stream) {
	var found [64]C.uint64_t
	count := int(C.steps_steppable(m.machine, C.int(ordinal), &found[0], C.int(len(found))))
	for _, stream := range found[:count] {
		streams = append(streams, gpu.Stream(stream))
	}
	slices.Reverse(streams) // the simulator lists the newest first
	return streams
}

// Step executes the next piece of work of a stream that Steppable lists. It returns false for any other stream.
func (m *Machine) Step(ordinal int, stream gpu.Stream) (ran bool) {
	return C.steps_step(m.machine, C.int(ordinal), C.uint64_t(stream)) != 0
}

// Drain executes all work that can run, on all devices.
func (m *Machine) Drain() {
	for ran := true; ran; {
		ran = false
		devices, err := m.Devices()
		if err != nil {
			panic(err)
		}
		for ordinal := range devices {
			for _, stream := range m.Steppable(ordinal) {
				ran = m.Step(ordinal, stream) || ran
			}
		}
	}
}
