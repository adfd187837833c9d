/* SPDX-License-Identifier: Apache-2.0 */
#include "textflag.h"

// func counter() uint64: the time stamp counter.
TEXT ·counter(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func thread() uint64: the first word at the thread pointer is the pointer itself.
TEXT ·thread(SB), NOSPLIT, $0-8
	MOVQ 0(FS), AX
	MOVQ AX, ret+0(FP)
	RET
