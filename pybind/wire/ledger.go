// SPDX-License-Identifier: Apache-2.0

package wire

// CardRequest is a card that a claim may get. All claims together take at most its capacity less what is reserved and
// what is in use outside of the ledger.
type CardRequest struct {
	UUID     string `py:"uuid"`     // "GPU-..." or "MIG-..."
	Capacity uint64 `py:"capacity"` // the card's memory
	Bytes    uint64 `py:"bytes"`    // what the claim's programs may use on the card
	Charge   uint64 `py:"charge"`   // what the claim takes of the card: these bytes or more
	Reserve  uint64 `py:"reserve"`  // what is never leased
	Foreign  uint64 `py:"foreign"`  // what processes outside the ledger use of the card now
}

// ClaimRequest is what a claim requests: bytes on a number of cards, all or nothing.
type ClaimRequest struct {
	Cards    []CardRequest `py:"cards"`    // the candidates
	Count    int           `py:"count"`    // how many of them are needed
	Pack     bool          `py:"pack"`     // whether to prefer the card with least room that fits
	Contexts int           `py:"contexts"` // CUDA contexts that the charges have room for on each card; 0: not known
	Name     string        `py:"name"`     // of the lease
	Job      string        `py:"job"`      // the name of its job
	Command  string        `py:"command"`  // the command line
}

// PublishRequest is what a process says of itself.
type PublishRequest struct {
	Name    string `py:"name"`    // of its lease
	Job     string `py:"job"`     // the name of its job
	Command string `py:"command"` // the command line
}

// CardLease is bytes of a card that a claim leases, or waits for.
type CardLease struct {
	UUID   string `py:"uuid"`   // "GPU-..." or "MIG-..."
	Bytes  uint64 `py:"bytes"`  // what the claim's programs may use on the card
	Charge uint64 `py:"charge"` // what it takes of the card: these bytes and what it reserves beside them
}

// Grant is the state of a claim of this process.
type Grant struct {
	ID         string      `py:"id"`         // the claim's, 32 hexadecimal digits
	Cards      []CardLease `py:"cards"`      // the leased cards; none while the claim waits
	Descriptor int         `py:"descriptor"` // the open file that holds the claim
}

// ClaimRow is a claim of a live process, or of a child that inherited it. The texts are what the process said of
// itself.
type ClaimRow struct {
	ID        string `py:"id"`         // 32 hexadecimal digits
	PID       int    `py:"pid"`        // the process that made the claim
	StartTime uint64 `py:"start_time"` // of the process, in clock ticks since boot
	UID       uint32 `py:"uid"`        // reliable, unlike the texts
	Name      string `py:"name"`       // of the lease
	Job       string `py:"job"`        // the name of its job
	Command   string `py:"command"`    // the command line
	State     string `py:"state"`      // "granted" or "waiting"
	// It waits and has not looked for seconds, because its process is stopped or frozen; others pass it.
	Stopped bool `py:"stopped"`
	// The leased cards; of a waiting claim, all that it may get, of which it needs count.
	Cards []CardLease `py:"cards"`
	Count int         `py:"count"` // the number of cards that it needs
	// CUDA contexts that the charge has room for on each card; 0 if an older gpuconf made the claim.
	Contexts int     `py:"contexts"`
	Ticket   uint64  `py:"ticket"`  // the order of the requests
	Seconds  float64 `py:"seconds"` // the time since the grant, or since the request
	Gone     bool    `py:"gone"`    // the process has ended, and a child holds the claim
	Local    bool    `py:"local"`   // pid is one of this PID namespace, not of another container's
}

// PoolFigures are the figures of a memory pool, exact while the pool is idle.
type PoolFigures struct {
	UUID     string `py:"uuid"`     // of its card
	Number   int    `py:"number"`   // N of its name GPU:N
	Limit    uint64 `py:"limit"`    // the hard limit
	Reserved uint64 `py:"reserved"` // what it has taken from the card
	InUse    uint64 `py:"in_use"`   // the total size of live blocks
	Peak     uint64 `py:"peak"`     // the maximum of in_use
	// In use by library, "c", "gpuconf", "torch", "cupy" and "numba"; those that use none are left out.
	Libraries map[string]uint64 `py:"libraries"`
}

// ProcessRow is a live process that publishes the figures of its pools. The texts are what it said of itself.
type ProcessRow struct {
	PID       int           `py:"pid"`        // the process
	StartTime uint64        `py:"start_time"` // in clock ticks since boot
	UID       uint32        `py:"uid"`        // reliable, unlike the texts
	Name      string        `py:"name"`       // of its lease
	Job       string        `py:"job"`        // the name of its job
	Command   string        `py:"command"`    // the command line
	ClaimID   string        `py:"claim_id"`   // the claim that it runs under, or ""
	Pools     []PoolFigures `py:"pools"`      // one for each logical GPU
	Gone      bool          `py:"gone"`       // the process has ended, and a child keeps its slot
	Local     bool          `py:"local"`      // pid is one of this PID namespace, not of another container's
}

// LedgerRows is all that is alive in a ledger.
type LedgerRows struct {
	Claims    []ClaimRow   `py:"claims"`    // in the order of their tickets
	Processes []ProcessRow `py:"processes"` // those that publish figures
}
