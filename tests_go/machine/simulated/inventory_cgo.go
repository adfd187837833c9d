//go:build cgo && linux && (amd64 || arm64)

package simulated

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
	return Inventory{
		Allocations: m.live("allocations"), Retains: m.live("retains"), Reservations: m.live("reservations"),
		Handles:  m.live("handles"),
		Mappings: m.live("mappings"), Streams: m.live("streams"), Events: m.live("events"),
		HostAllocations: m.live("host"),
	}
}

// Live counts live allocations, and retains of contexts. After a clean shutdown both are 0.
func (m *Machine) Live() (allocations, retains int) { return m.live("allocations"), m.live("retains") }
