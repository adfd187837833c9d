// SPDX-License-Identifier: Apache-2.0

// Package models has the GPU models that can be simulated, and the grammar of specifications such as 2xH100-80GB.
//
// Both are in C (models.h, spec.h), because the simulator's libraries read the same table and the same grammar. Go's
// part converts. There is no state.
package models

// #include <stdlib.h>
// #include "spec.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/visible"
)

const (
	// MaxCards is the maximum number of GPUs of a machine.
	MaxCards = C.GPUCONF_MOST_CARDS

	// MaxFleet is the maximum number of GPUs of a fleet.
	MaxFleet = 1_000_000
)

// Model is a GPU model of the catalogue. It is an immutable value.
type Model struct {
	Name             string   // as Spec.String writes it
	Aliases          []string // other names in a spec
	Product          string   // the name that the driver reports; a spec may use it too
	MemoryBytes      uint64   // the nominal size: 80 GiB for an H100-80GB
	ComputeMajor     int      // 9 of compute capability 9.0
	ComputeMinor     int      // 0 of compute capability 9.0
	Multiprocessors  int      // the number of streaming multiprocessors
	ClockMHz         int      // boost clock; orders cards by speed, together with the multiprocessors
	GreatestPriority int      // of streams; the lowest is 0 on every card
	GranularityBytes uint64   // of virtual memory management; 0 without it

	kind  gpu.MemoryKind
	index int // in the table
}

func modelAt(index int) (Model, bool) {
	m := C.gpuconf_model(C.int(index))
	if m == nil {
		return Model{}, false
	}
	c := m.capability
	model := Model{
		Name: C.GoString(m.name), Product: C.GoString(m.product), MemoryBytes: uint64(m.memory),
		ComputeMajor: int(c.major), ComputeMinor: int(c.minor), Multiprocessors: int(m.multiprocessors),
		ClockMHz:         int(m.clock_mhz),
		GreatestPriority: int(c.greatest_priority), GranularityBytes: uint64(c.granularity),
		kind:  map[uint32]gpu.MemoryKind{C.GPUCONF_UNIFIED: gpu.Unified, C.GPUCONF_COHERENT: gpu.Coherent}[m.kind],
		index: index,
	}
	if m.alias != nil {
		model.Aliases = []string{C.GoString(m.alias)}
	}
	return model, true
}

// Models returns the catalogue, newest first.
func Models() (list []Model) {
	for i := 0; ; i++ {
		model, ok := modelAt(i)
		if !ok {
			return list
		}
		list = append(list, model)
	}
}

// MemoryKind returns where the model's memory is.
func (m Model) MemoryKind() gpu.MemoryKind { return m.kind }

// Place returns the model's place in Models, from 1, as the simulator's libraries take it.
func (m Model) Place() int { return m.index + 1 }

// Hardware is what a compiler asks about a model, and what the size of a kernel's grid and of its workspace depend on.
// 0 is unknown.
type Hardware struct {
	Lanes            int `py:"lanes"`           // of single precision, of a multiprocessor
	SharedBytes      int `py:"shared"`          // bytes of a multiprocessor's shared memory
	SharedBlockBytes int `py:"shared_block"`    // of them, what a block may have that opts in
	Registers        int `py:"registers"`       // of a multiprocessor
	Threads          int `py:"threads"`         // of a multiprocessor
	Multiprocessors  int `py:"multiprocessors"` // of the card
	ClockMHz         int `py:"clock_mhz"`       // boost clock
	MemoryMHz        int `py:"memory_mhz"`      // which transfers twice in a cycle
	BusBits          int `py:"bus_bits"`        // width of the memory bus
	L2Bytes          int `py:"l2"`              // bytes
}

// Hardware returns what a compiler asks about the model.
func (m Model) Hardware() Hardware {
	row := C.gpuconf_model(C.int(m.index))
	c := row.capability
	return Hardware{Lanes: int(c.lanes), SharedBytes: int(c.shared_bytes),
		SharedBlockBytes: int(c.shared_bytes_of_block), Registers: int(c.registers), Threads: int(c.threads),
		Multiprocessors: int(row.multiprocessors), ClockMHz: int(row.clock_mhz), MemoryMHz: int(row.memory_mhz),
		BusBits: int(row.bus_bits), L2Bytes: int(row.l2_bytes)}
}

// ContextBytes returns the device memory that a process's CUDA context takes on a card, by the major number of its
// compute capability: what a lease reserves beside its memory for each process that uses the card. models.h has the
// table, with the figures behind it.
func ContextBytes(totalBytes uint64, computeMajor int) uint64 {
	return uint64(C.gpuconf_context(C.uint64_t(totalBytes), C.int(computeMajor)))
}

// Profile is how the machine around a card behaves.
type Profile struct {
	Words  uint // a set of Word
	Driver int  // as CUDA reports it, such as 11080; 0: the newest
}

// Word is a behavior of a Profile.
type Word = uint

// The words that Go looks for, each as a specification names it.
const (
	WSL       Word = C.GPUCONF_WSL
	AsUnified Word = C.GPUCONF_AS_UNIFIED
)

// Names lists the words of a profile as a specification does.
func (p Profile) Names() (names []string) {
	for i := 0; ; i++ {
		name := C.gpuconf_profile_name(C.int(i))
		if name == nil {
			break
		}
		if p.Words&(1<<i) != 0 {
			names = append(names, C.GoString(name))
		}
	}
	if p.Driver != 0 {
		names = append(names, fmt.Sprintf("driver=%d.%d", p.Driver/1000, p.Driver%1000/10))
	}
	return names
}

// Card is one GPU of a Spec.
type Card struct {
	Model       Model   // of the catalogue
	MemoryBytes uint64  // Model.MemoryBytes unless the spec sets another size
	Profile     Profile // how the machine around the card behaves
}

func (c Card) toC() C.struct_gpuconf_card {
	return C.struct_gpuconf_card{model: C.gpuconf_model(C.int(c.Model.index)), memory: C.uint64_t(c.MemoryBytes),
		profile: C.unsigned(c.Profile.Words), driver: C.int(c.Profile.Driver)}
}

func fromC(c C.struct_gpuconf_card, table []Model) Card {
	card := Card{MemoryBytes: uint64(c.memory), Profile: Profile{Words: uint(c.profile), Driver: int(c.driver)}}
	for i := range table {
		if C.gpuconf_model(C.int(i)) == c.model {
			card.Model = table[i]
		}
	}
	return card
}

// MemoryKind returns where the card's memory is: its profile may say unified.
func (c Card) MemoryKind() gpu.MemoryKind {
	if c.Profile.Words&AsUnified != 0 {
		return gpu.Unified
	}
	return c.Model.MemoryKind()
}

// Spec lists the GPUs of a machine, in the order of their PCI bus ids. The zero value has none.
type Spec struct {
	Cards []Card // in the order of their PCI bus ids
}

// ParseSpec parses a comma-separated list of `[N x]MODEL[:MEMORY][:PROFILE]...`, such as "2xH100-80GB", "A100-40GB,T4"
// or "4xT4:8GiB:wsl".
//
// Case, white space and a model's hyphens do not matter, and a model may be written as the driver reports it. N is 1 to
// 64, and so is the sum of all N. MEMORY is a whole number with a unit: B, KiB, MiB, GiB or TiB; KB, MB, GB and TB mean
// the same as these, as GB does in a model's name, so that H100-80GB and H100:80GB are one thing. It must be a positive
// multiple of 256 bytes, at most 16TiB. PROFILE is wsl, mig-container, unified, no-peers, mps, no-limit,
// contexts or driver=VERSION.
func ParseSpec(text string) (Spec, error) {
	var cards [MaxCards]C.struct_gpuconf_card
	var complaint [C.GPUCONF_COMPLAINT]C.char
	bytes := (*C.char)(unsafe.Pointer(unsafe.StringData(text)))
	n := C.gpuconf_read_spec(bytes, C.size_t(len(text)), &cards[0], &complaint[0], C.size_t(len(complaint)))
	if n < 0 {
		return Spec{}, status.Errorf(status.InvalidArgument, "%s", said(&complaint[0]))
	}
	table, spec := Models(), Spec{}
	for _, card := range cards[:n] {
		spec.Cards = append(spec.Cards, fromC(card, table))
	}
	return spec, nil
}

// said converts a complaint, which may have been cut within a character.
func said(complaint *C.char) string { return strings.ToValidUTF8(C.GoString(complaint), "") }

// String returns the shortest text that ParseSpec parses as s.
func (s Spec) String() string {
	var entries []string
	for i := 0; i < len(s.Cards); {
		count, text := 1, s.Cards[i].text()
		for i+count < len(s.Cards) && s.Cards[i+count].text() == text {
			count++
		}
		entry := text
		if count > 1 {
			entry = fmt.Sprintf("%dx%s", count, text)
		}
		entries = append(entries, entry)
		i += count
	}
	return strings.Join(entries, ",")
}

func (c Card) text() string {
	var text [128]C.char
	card := c.toC()
	C.gpuconf_write_card(&card, &text[0], C.size_t(len(text)))
	return C.GoString(&text[0])
}

// Driver returns the CUDA version of the machine's driver, such as 11080; 0 is the simulator's own.
func (s Spec) Driver() (version int) {
	for _, card := range s.Cards {
		version = max(version, card.Profile.Driver)
	}
	return version
}

// Devices describes the cards, all of them visible.
func (s Spec) Devices() []gpu.Device {
	devices := make([]gpu.Device, len(s.Cards))
	for i, card := range s.Cards {
		devices[i] = card.Describe(i, i)
	}
	return devices
}

// Identities returns the cards in the form that visible.Select takes. The indices that it returns are places in Cards.
func (s Spec) Identities() []visible.Device {
	devices := make([]visible.Device, len(s.Cards))
	for i, card := range s.Cards {
		devices[i] = visible.Device{UUID: card.uuid(i), PCIBusID: pciBusID(i), Speed: card.speed()}
	}
	return devices
}

// speed orders cards as CUDA_DEVICE_ORDER=FASTEST_FIRST does, as far as that is known.
func (c Card) speed() uint64 {
	card := c.toC()
	return uint64(C.gpuconf_card_speed(&card))
}

func (c Card) see(slot int) (view C.struct_gpuconf_view) {
	card := c.toC()
	C.gpuconf_see(&card, C.int(slot), &view)
	return view
}

// Parent describes the card of a slot to which a MIG instance belongs; ok is false if the card has none.
func (c Card) Parent(slot int) (uuid, name string, ok bool) {
	view := c.see(slot)
	return uuidText("GPU", view.uuid), c.Model.Product, view.mig != 0
}

// Describe returns the card of a slot as the driver reports it.
func (c Card) Describe(slot, ordinal int) gpu.Device {
	view := c.see(slot)
	return gpu.Device{
		Ordinal:          ordinal,
		UUID:             c.uuid(slot),
		PCIBusID:         C.GoString(&view.bus[0]),
		Name:             C.GoString(&view.name[0]),
		ComputeMajor:     c.Model.ComputeMajor,
		ComputeMinor:     c.Model.ComputeMinor,
		Multiprocessors:  int(view.multiprocessors),
		TotalBytes:       uint64(view.total),
		MemoryKind:       c.MemoryKind(),
		LeastPriority:    0,
		GreatestPriority: c.Model.GreatestPriority,
		VMM:              c.Model.GranularityBytes > 0,
		StreamMemOps:     true,
		Managed:          true,
		Oversubscribes:   view.oversubscribes != 0,
	}
}

// uuid returns the same UUID in every process for the same card in the same slot. Leases depend on it: it never
// changes.
func (c Card) uuid(slot int) string {
	view := c.see(slot)
	if view.mig != 0 {
		return uuidText("MIG", view.instance)
	}
	return uuidText("GPU", view.uuid)
}

func uuidText(kind string, b [16]C.uchar) string {
	u := C.GoBytes(unsafe.Pointer(&b[0]), 16)
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func pciBusID(slot int) string {
	var text [16]C.char
	C.gpuconf_card_bus(C.int(slot), &text[0])
	return C.GoString(&text[0])
}

// Batch is a number of equal GPUs of a fleet.
type Batch struct {
	Count int  // the number of GPUs
	Card  Card // what each of them is
}

// Name returns the card as a spec names it, such as "H100-80GB" or "T4:8GiB".
func (b Batch) Name() string { return b.Card.text() }

// ParseFleet parses a list of GPUs in the form that ParseSpec takes. They are those of many machines: N is 1 to
// MaxFleet, and so is the sum of all N.
func ParseFleet(text string) (fleet []Batch, err error) {
	fail := func(format string, args ...any) ([]Batch, error) {
		return nil, status.Errorf(status.InvalidArgument, "invalid list of GPUs %q: %s", text,
			fmt.Sprintf(format, args...))
	}
	if strings.TrimSpace(text) == "" {
		return fail("it is empty; an example is 64xA100-80GB,128xH100-80GB")
	}
	copied := C.CString(text) // may hold NUL: the reader knows its end
	defer C.free(unsafe.Pointer(copied))
	reader := C.struct_gpuconf_reader{at: copied, end: (*C.char)(unsafe.Add(unsafe.Pointer(copied), len(text))),
		most: MaxFleet}
	var complaint [C.GPUCONF_COMPLAINT]C.char
	for table, total := Models(), 0; ; {
		var card C.struct_gpuconf_card
		count := int(C.gpuconf_read_entry(&reader, &card, &complaint[0], C.size_t(len(complaint))))
		switch {
		case count < 0:
			return fail("%s", said(&complaint[0]))
		case count == 0:
			return fleet, nil
		case count > MaxFleet-total:
			return fail("it has more than %d GPUs", MaxFleet)
		}
		total += count
		fleet = append(fleet, Batch{count, fromC(card, table)})
	}
}
