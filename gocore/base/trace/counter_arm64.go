// SPDX-License-Identifier: Apache-2.0

package trace

// steadyClocksource is the kernel's name of the clock source that uses the same counter as the function counter.
const steadyClocksource = "arch_sys_counter"

// counter reads the processor's virtual count.
func counter() uint64
