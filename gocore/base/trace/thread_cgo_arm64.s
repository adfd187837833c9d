// SPDX-License-Identifier: Apache-2.0
//go:build cgo

#include "textflag.h"

// func thread() uint64
TEXT ·thread(SB), NOSPLIT, $0-8
	MRS  TPIDR_EL0, R0
	MOVD R0, ret+0(FP)
	RET
