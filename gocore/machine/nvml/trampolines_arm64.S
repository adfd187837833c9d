// SPDX-License-Identifier: Apache-2.0
//go:build cgo && linux

/* x16 is the register that the procedure call standard leaves to code between caller and callee. */
#define JUMP(entry) adrp x16, entry; ldr x16, [x16, :lo12:entry]; br x16

#include "trampolines_table.h"
