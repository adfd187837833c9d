//go:build cgo && linux && (amd64 || arm64)

// Package simulated opens machines of the simulated CUDA driver for tests, with counts of what is left on them, and
// with work that runs step by step.
package simulated

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"go.uber.org/goleak"

	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/machine/fakecuda"
)

// libraryEnv is where a child of a test binary finds the library.
const libraryEnv = "GPUCONF_SIMULATED_TEST_LIBRARY"

// library is the simulated driver of this test binary. Main sets it.
var library = os.Getenv(libraryEnv)

// attached is done when the library's functions for tests are found.
var attached sync.Once

// Main is the TestMain of tests on simulated machines: it builds the driver, runs the tests, and looks for goroutines
// that are left.
func Main(m *testing.M) {
	folder, err := os.MkdirTemp("", "gpuconf-simulator-")
	if err == nil {
		library = filepath.Join(folder, "libcuda.so.1")
		err = errors.Join(os.Setenv(libraryEnv, library), fakecuda.Build(folder, fakecuda.Options{}))
	}
	if err != nil {
		panic(errors.Join(err, os.RemoveAll(folder)))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

// Options changes what a process sees of a machine. The zero value is the whole machine, unused.
type Options struct {
	// Visible lists the cards that the process sees, as indices into models.Spec.Cards, in its order (visible.Select
	// makes such a list). Ordinals count from 0 in this order; UUIDs and PCI bus ids stay. nil means all, an empty list
	// no card.
	Visible []int

	// UsedBytes is the memory of each card that other processes use, so that free is less than total.
	UsedBytes uint64

	// NoVMM and NoStreamMemOps remove a capability from every card: virtual memory management, and streams that write
	// words and wait for them.
	NoVMM          bool
	NoStreamMemOps bool

	// NoManaged disables managed memory on every card; NoOversubscription only stops it from exceeding a card, as under
	// WSL.
	NoManaged          bool
	NoOversubscription bool

	// Stepped makes a machine whose work runs only when Step or Drain runs it. A call that waits for work then never
	// returns.
	Stepped bool
}

// Cards describes the cards of a machine to the simulator.
func Cards(spec models.Spec, opts Options) (cards []cuda.SimulatedCard) {
	slots := opts.Visible
	if slots == nil {
		for slot := range spec.Cards {
			slots = append(slots, slot)
		}
	}
	lacks := uint(0)
	for what, lacking := range map[uint]bool{cuda.LacksVMM: opts.NoVMM, cuda.LacksStreamMemOps: opts.NoStreamMemOps,
		cuda.LacksManaged: opts.NoManaged, cuda.LacksOversubscription: opts.NoOversubscription} {
		if lacking {
			lacks |= what
		}
	}
	for _, slot := range slots {
		card := spec.Cards[slot]
		cards = append(cards, cuda.SimulatedCard{
			Model: card.Model.Place(), Slot: slot, MemoryBytes: card.MemoryBytes, Profile: card.Profile.Words,
			GreatestPriority: card.Model.GreatestPriority, UsedBytes: opts.UsedBytes, Lacks: lacks,
		})
	}
	return cards
}

// Machine is a machine of simulated GPUs. The caller of New closes it; its memory is mapped until then.
type Machine struct {
	gpu.Driver
	machine unsafe.Pointer
}

// New opens a machine.
func New(spec models.Spec, opts Options) (*Machine, error) {
	driver, err := cuda.OpenSimulator(library, Cards(spec, opts), cuda.SimulatedOptions{})
	if err != nil {
		return nil, err
	}
	attached.Do(attach)
	m := &Machine{driver, driver.(interface{ Machine() unsafe.Pointer }).Machine()}
	if opts.Stepped {
		m.hold()
	}
	return m, nil
}
