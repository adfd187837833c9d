// SPDX-License-Identifier: Apache-2.0

package trace

// steadyClocksource is the kernel's name of the clock source that uses the same counter as the function counter.
const steadyClocksource = "tsc"

// counter reads the processor's time stamp counter.
func counter() uint64
