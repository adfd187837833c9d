/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of functions without names that NVIDIA's nvidia-smi requests. NVIDIA does not document them, and none does anything here:
 * each returns NVML_ERROR_NOT_SUPPORTED, and nvidia-smi then prints N/A. Drivers 550 and 555 answer an unknown identifier so, and begin the
 * table with its size in bytes; nvidia-smi of 470 to 555 requests this one.
 */
#include "nvml.h"

#ifndef FAKE_NVML_OLD

#include <string.h>

enum { FUNCTIONS = 511 }; /* driver 550 has 250, and 555 has 254 */

static int without_a_name(void)
{
	static int told;
	return unsupported("a function of nvmlInternalGetExportTable", &told);
}

static const unsigned char identifier[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
static const struct {
	size_t size;
	int (*function[FUNCTIONS])(void);
} table = {sizeof table, {[0 ... FUNCTIONS - 1] = without_a_name}};

__attribute__((visibility("default"))) int nvmlInternalGetExportTable(const void **out, const unsigned char *requested)
{
	if (out == NULL || requested == NULL || memcmp(requested, identifier, sizeof identifier) != 0)
		return INVALID_ARGUMENT;
	*out = &table;
	return SUCCESS;
}

#endif
