// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"sync"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/models"
	"gpuconf/gocore/status"
)

// Options changes what a process sees of a machine. The zero value is the whole machine, unused.
type Options struct {
	// Visible lists the cards that the process sees, as indices into models.Spec.Cards, in its order (visible.Select makes
	// such a list). Ordinals count from 0 in this order; UUIDs and PCI bus ids stay. nil means all, an empty list no card.
	Visible []int

	// UsedBytes is the memory of each card that other processes use, so that free is less than total.
	UsedBytes uint64

	// NoVMM and NoStreamMemOps remove a capability from every card: virtual memory management, and streams that write words and
	// wait for them.
	NoVMM          bool
	NoStreamMemOps bool

	// NoManaged disables managed memory on every card; NoOversubscription only stops it from exceeding a card, as under WSL.
	NoManaged          bool
	NoOversubscription bool

	// BeforeWork, if not nil, is called before each piece of work that could run now, by the goroutine of its stream, which holds
	// no lock. A test can delay its return to try every order (tests_go/stepping).
	BeforeWork func(ordinal int, stream gpu.Stream)
}

// Machine is a machine of simulated GPUs. The caller of New closes it; its memory is mapped until then.
type Machine struct {
	mu     sync.RWMutex
	cards  []*card // the slice never changes; mu guards the cards
	closed bool    // guarded by mu, as is all below

	space      addressSpace
	handles    map[gpu.Handle]*part // those not released
	lastHandle gpu.Handle
	host       hostMemory

	queues *queues // never changes; has its own lock
}

var _ gpu.Driver = (*Machine)(nil)

// New opens a machine. It fails with InvalidArgument for options that do not fit the spec, and with ResourceExhausted if the host
// refuses the address space.
func New(spec models.Spec, opts Options) (*Machine, error) {
	if err := supports(spec); err != nil {
		return nil, err
	}
	slots, err := visibleSlots(spec, opts.Visible)
	if err != nil {
		return nil, err
	}
	m := &Machine{handles: map[gpu.Handle]*part{}, queues: newQueues(opts.BeforeWork), space: addressSpace{alignment: largeBytes}}
	for ordinal, slot := range slots {
		c, err := openCard(spec.Cards[slot], slot, ordinal, opts)
		if err != nil {
			_ = m.Close()
			return nil, err
		}
		m.cards = append(m.cards, c)
		m.space.alignment = max(m.space.alignment, c.granularity)
		m.space.virtual = m.space.virtual || c.granularity > 0
	}
	return m, nil
}

// describe returns the card of a slot without what the options take from it.
func describe(c models.Card, slot, ordinal int, opts Options) gpu.Device {
	device := c.Describe(slot, ordinal)
	device.VMM = device.VMM && !opts.NoVMM
	device.StreamMemOps = !opts.NoStreamMemOps
	device.Managed = !opts.NoManaged
	device.Oversubscribes = device.Oversubscribes && device.Managed && !opts.NoOversubscription
	return device
}

// supports fails with Unimplemented for a profile that a Machine would not act on.
func supports(spec models.Spec) error {
	for _, card := range spec.Cards {
		rest := card.Profile
		rest.Words &^= models.WSL | models.AsUnified
		if names := rest.Names(); len(names) > 0 {
			return status.Errorf(status.Unimplemented, "cannot simulate %q: GPUs in this process do not act on the profile %s; leave it out, "+
				"or use wsl or unified, which they do", spec.String(), names[0])
		}
	}
	return nil
}

// maxMemoryBytes bounds one card, so that no sum of addresses can overflow.
const maxMemoryBytes = 16 << 40

func visibleSlots(spec models.Spec, visible []int) ([]int, error) {
	if len(spec.Cards) == 0 || len(spec.Cards) > models.MaxCards {
		return nil, status.Errorf(status.InvalidArgument, "cannot simulate %d GPUs; a machine has 1 to %d", len(spec.Cards), models.MaxCards)
	}
	if visible == nil {
		visible = make([]int, len(spec.Cards))
		for i := range visible {
			visible[i] = i
		}
	}
	seen := make([]bool, len(spec.Cards))
	for _, slot := range visible {
		if slot < 0 || slot >= len(spec.Cards) || seen[slot] {
			return nil, status.Errorf(status.InvalidArgument,
				"visible GPUs %v: %d is out of range or listed twice; the machine has %d GPUs", visible, slot, len(spec.Cards))
		}
		seen[slot] = true
	}
	return visible, nil
}

func openCard(model models.Card, slot, ordinal int, opts Options) (*card, error) {
	description := describe(model, slot, ordinal, opts)
	total, usedBytes := description.TotalBytes, opts.UsedBytes
	if total == 0 || total > maxMemoryBytes || total%unitBytes != 0 {
		return nil, status.Errorf(status.InvalidArgument,
			"cannot simulate a GPU of %d bytes; its memory is a multiple of %d bytes, at most 16TiB", total, unitBytes)
	}
	if usedBytes > total {
		return nil, status.Errorf(status.InvalidArgument, "%d bytes cannot be in use on a GPU of %d bytes", usedBytes, total)
	}
	reserved := reservationBytes(total)
	base, err := reserve(reserved)
	if err != nil {
		return nil, status.Errorf(status.ResourceExhausted,
			"the host refused %d GiB of address space for simulated GPU %d, %s (%w). No memory is used yet. "+
				"Check the limit of address space (ulimit -v), or simulate less memory, such as T4:1GiB",
			roundUp(reserved, (1<<30))/(1<<30), description.Ordinal, description.Name, err)
	}
	c := &card{description: description, usedBytes: usedBytes, memory: arena{base: base, reserved: reserved, end: base}}
	if description.VMM {
		c.granularity = model.Model.GranularityBytes
	}
	return c, nil
}

// Close unmaps all memory: addresses that the machine returned must not be used any more. It waits for running copies and drops
// queued work.
func (m *Machine) Close() error {
	err := m.close()
	m.queues.workers.Wait()
	return err
}

func (m *Machine) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	errs := []error{}
	for _, c := range m.cards {
		m.queues.closeContext(c, gpu.ErrorDeinitialized)
		if err := unmap(c.memory.base, c.memory.reserved); err != nil {
			errs = append(errs, fmt.Errorf("simulated GPU %d: unmap: %w (%w)", c.description.Ordinal, err, gpu.ErrorUnknown))
		}
		c.memory, c.managed, c.retains = arena{}, managed{}, 0
	}
	return firstError(append(errs, m.closeVMM(), m.host.close())...)
}

// HostVisible returns true: a device address is a host address.
func (m *Machine) HostVisible() bool { return true }

// Devices lists the visible cards.
func (m *Machine) Devices() ([]gpu.Device, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, gpu.ErrorDeinitialized
	}
	devices := make([]gpu.Device, len(m.cards))
	for i, c := range m.cards {
		devices[i] = c.description
	}
	return devices, nil
}

// ContextRetain adds a reference to a card's primary context.
func (m *Machine) ContextRetain(ordinal int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.cardLocked(ordinal)
	if err != nil {
		return err
	}
	if c.retains == 0 {
		m.queues.openContext(c)
	}
	c.retains++
	return nil
}

// ContextRelease drops a reference. The last one ends the card's allocations, streams and events, and its page-locked memory.
// Physical memory, mappings and reservations remain: they belong to the process.
func (m *Machine) ContextRelease(ordinal int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.retainedLocked(ordinal)
	if err != nil {
		return err
	}
	if c.retains == 1 {
		m.queues.closeContext(c, gpu.ErrorInvalidContext)
		c.memory.freeAll()
		m.freeAllManaged(c)
		m.host.freeAll(ordinal)
	}
	c.retains--
	return nil
}

// MemGetInfo returns the card's free and total bytes. Bytes used by other processes are not free.
func (m *Machine) MemGetInfo(ordinal int) (freeBytes, totalBytes uint64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return 0, 0, err
	}
	return c.freeBytes(), c.description.TotalBytes, nil
}

// MemAlloc allocates memory of a card.
func (m *Machine) MemAlloc(ordinal int, bytes uint64) (addr uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return 0, err
	}
	return c.allocate(bytes)
}

// MemFree frees memory of the card and returns its pages to the host.
func (m *Machine) MemFree(ordinal int, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return err
	}
	if m.freeManaged(c, addr) {
		return nil
	}
	return c.free(addr)
}

// cardLocked returns a card of an open machine. m.mu is held, at least for reading.
func (m *Machine) cardLocked(ordinal int) (*card, error) {
	if m.closed {
		return nil, gpu.ErrorDeinitialized
	}
	if ordinal < 0 || ordinal >= len(m.cards) {
		return nil, fmt.Errorf("unknown simulated GPU %d, the machine has %d: %w", ordinal, len(m.cards), gpu.ErrorInvalidDevice)
	}
	return m.cards[ordinal], nil
}

// retainedLocked returns a card that has a context. m.mu is held, at least for reading.
func (m *Machine) retainedLocked(ordinal int) (*card, error) {
	c, err := m.cardLocked(ordinal)
	if err != nil {
		return nil, err
	}
	if c.retains == 0 {
		return nil, c.errorf(gpu.ErrorInvalidContext, "no context is retained")
	}
	return c, nil
}

// contextLocked returns a card whose context works. m.mu is held, at least for reading.
func (m *Machine) contextLocked(ordinal int) (*card, error) {
	c, err := m.retainedLocked(ordinal)
	if err == nil {
		err = c.faulted()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
