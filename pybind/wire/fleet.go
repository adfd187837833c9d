// SPDX-License-Identifier: Apache-2.0

package wire

// Hardware is what the size of a kernel's grid, and with it of its workspace, depends on.
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

// FleetBatch is equal cards of a fleet.
type FleetBatch struct {
	Name     string   `py:"gpu"`      // the model, as for gpuconf.simulate
	Count    int      `py:"count"`    // how many cards
	Memory   uint64   `py:"memory"`   // of each card, in bytes
	Leasable uint64   `py:"leasable"` // the most that one process can lease of a card, in bytes
	Context  uint64   `py:"context"`  // what a lease takes besides, in bytes, for the CUDA context of its process
	Product  string   `py:"product"`  // as a driver reports it
	Virtual  bool     `py:"virtual"`  // whether it has virtual memory management
	Compute  [2]int   `py:"compute"`  // its compute capability
	Hardware Hardware `py:"hardware"` // what workspaces depend on
}
