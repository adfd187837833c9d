/* SPDX-License-Identifier: Apache-2.0 */
#include "textflag.h"

// func counter() uint64: the virtual count.
TEXT ·counter(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func thread() uint64: the thread pointer.
TEXT ·thread(SB), NOSPLIT, $0-8
	MRS  TPIDR_EL0, R0
	MOVD R0, ret+0(FP)
	RET
