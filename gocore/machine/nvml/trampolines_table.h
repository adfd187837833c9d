/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table and the jumps, for the assembler. The including file defines how to jump through an entry: JUMP(entry).
 */
	.data
	.balign 8
	.globl trampolines_table
	.hidden trampolines_table
trampolines_table:

#define STATUS(name) TRAMPOLINE(name, trampolines_missing)
#define TEXT(name) TRAMPOLINE(name, trampolines_missing_text)

/* Hidden, so that calls come directly here and an executable does not export them to the driver's library. */
#define TRAMPOLINE(name, missing) \
	.data; \
.Lentry_##name: .quad missing; \
	.text; \
	.balign 4; \
	.globl name; \
	.hidden name; \
	.type name, %function; \
name: JUMP(.Lentry_##name); \
	.size name, . - name;

#include "symbols.h"

	.section .note.GNU-stack, "", %progbits
