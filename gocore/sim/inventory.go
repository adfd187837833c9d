// SPDX-License-Identifier: Apache-2.0

package sim

// Inventory counts resources that have not been released. After a clean shutdown it is zero.
type Inventory struct {
	Allocations     int // of device memory, managed memory included
	Retains         int // of contexts
	Reservations    int
	Handles         int
	Mappings        int
	Streams         int // without default streams
	Events          int
	HostAllocations int
}

// Inventory counts resources that have not been released.
func (m *Machine) Inventory() Inventory {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := Inventory{Handles: len(m.handles), Reservations: len(m.space.reservations), HostAllocations: len(m.host.owner)}
	for _, c := range m.cards {
		n.Allocations += len(c.memory.live) + len(c.managed.live)
		n.Retains += c.retains
	}
	for _, r := range m.space.reservations {
		n.Mappings += len(r.mappings)
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	for _, s := range m.queues.streams {
		if s != nil && !s.destroyed {
			n.Streams++
		}
	}
	for _, e := range m.queues.events {
		if e != nil {
			n.Events++
		}
	}
	return n
}

// Live counts resources that have not been released: live allocations, and retains of contexts. After a clean shutdown both are 0.
func (m *Machine) Live() (allocations, retains int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, c := range m.cards {
		allocations += len(c.memory.live) + len(c.managed.live)
		retains += c.retains
	}
	return allocations, retains
}
