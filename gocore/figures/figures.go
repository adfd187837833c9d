// Package figures holds the live figures of one memory pool, as other processes read them.
package figures

// Pool is what a pool has and uses, in bytes. The allocator writes it with its lock held; readers are other processes, which see
// whole words in any order. It is exact while the pool is idle.
type Pool struct {
	Limit    uint64
	Reserved uint64
	InUse    uint64
	Peak     uint64 // the most in use, since the statistics were cleared
}

// Bytes is the size of a Pool in a shared file.
const Bytes = 32

// Place says which pool it is.
type Place struct {
	UUID   string // of the card
	Number int    // N of GPU:N
}
