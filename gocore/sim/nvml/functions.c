/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of NVML that returns a status, from the generated list of go-nvml's functions that the core's own
 * trampolines use, too. The definitions here are weak, so a function takes the place of its stub by being defined in
 * another file. nvmlErrorString returns text: nvml.c has it.
 */
#include "nvml.h"

#ifndef FAKE_NVML_OLD

#define STATUS(name) \
	__attribute__((weak, visibility("default"))) int name(void) { return unsupported(#name); }
#define TEXT(name)
#include "../../machine/nvml/symbols.h"

STATUS(nvmlReturn) /* of no header of NVIDIA's; earlier versions of this library export it */

#endif
