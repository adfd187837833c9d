package trace

// steadyClocksource is the kernel's name for itself using the counter that counter reads.
const steadyClocksource = "arch_sys_counter"

// counter reads the processor's virtual count.
func counter() uint64
