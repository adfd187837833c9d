package trace

// Action is what an event did.
type Action uint8

// The actions. The first three are those of RMM's files; the others tell where a pool got its memory and are for
// those who draw it.
const (
	Allocate        Action = iota + 1
	AllocateFailure        // nothing was allocated: Addr is 0
	Free
	SegmentAlloc // the pool has taken a region from the GPU
	SegmentFree
	SegmentMap // the pool has mapped memory into its range of addresses
	SegmentUnmap
)

var actionNames = [...]string{"", "allocate", "allocate failure", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap"}

// String is the name that stands in files.
func (a Action) String() string {
	if int(a) >= len(actionNames) {
		return ""
	}
	return actionNames[a]
}

// Event is one thing that was done to one logical GPU's memory.
type Event struct {
	Micros int64  // since 1970, or since midnight in a file that tells no date
	Thread uint64 // 0: not known
	Action Action
	GPU    int // the logical GPU's number
	Addr   uint64
	Bytes  uint64 // that were asked for; for a segment, its size
	Stream uint64 // CUDA's handle; 0 is the default stream
}

// Block is a live piece of memory.
type Block struct {
	Addr, Bytes uint64
}
