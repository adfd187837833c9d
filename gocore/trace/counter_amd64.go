package trace

// steadyClocksource is the kernel's name for itself using the counter that counter reads.
const steadyClocksource = "tsc"

// counter reads the processor's time stamp counter.
func counter() uint64
