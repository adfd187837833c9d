// SPDX-License-Identifier: Apache-2.0
//go:build cgo

#include "textflag.h"

// func thread() uint64
TEXT ·thread(SB), NOSPLIT, $0-8
	MOVQ 0(FS), AX
	MOVQ AX, ret+0(FP)
	RET
