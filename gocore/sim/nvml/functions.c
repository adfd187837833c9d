/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of NVML. The definitions here are weak: those of nvml.c take their place. */
#include "nvml.h"

#ifndef FAKE_NVML_OLD

#define FUNCTION(name) \
	__attribute__((weak, visibility("default"))) int name(void) { return unsupported(#name); }
#include "functions.h"

#endif
