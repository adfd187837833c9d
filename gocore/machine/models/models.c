/* SPDX-License-Identifier: Apache-2.0 */
#include "models.h"

#include <limits.h>
#include <string.h>

#define KIB 1024
#define ROW(major, minor, lanes, for_double, shared, of_block, registers, threads, blocks, priority, granule) \
	{major, minor, lanes, for_double, shared * KIB, of_block * KIB, registers * KIB, threads, blocks, priority, \
	    (uint64_t)granule << 20},
static const struct gpuconf_capability capabilities[] = {GPUCONF_CAPABILITIES(ROW)};
#undef ROW

/* The place of a capability's row, as a constant. */
#define ROW(major, minor, ...) AT_##major##_##minor,
enum { GPUCONF_CAPABILITIES(ROW) CAPABILITIES };
#undef ROW

#define MEMORY(size) ((size) < 4096 ? (uint64_t)(size) << 30 : (uint64_t)(size) << 10)
#define ROW(name, alias, product, size, kind, major, minor, sms, mhz, memory_mhz, bus, l2) \
	{name, alias, product, MEMORY(size), kind, &capabilities[AT_##major##_##minor], sms, mhz, memory_mhz, bus, \
	    l2 * KIB},
static const struct gpuconf_model models[] = {GPUCONF_MODELS(ROW)};
#undef ROW

#define ROW(...) {__VA_ARGS__},
static const struct gpuconf_slice slices[] = {GPUCONF_SLICES(ROW)};
static const struct gpuconf_driver drivers[] = {GPUCONF_DRIVERS(ROW)};
static const struct {
	int major, mib;
} contexts[] = {GPUCONF_CONTEXTS(ROW)};
static const struct {
	const char *model;
	uint64_t bytes;
} reserved[] = {GPUCONF_RESERVED(ROW)};
#undef ROW

const struct gpuconf_model *gpuconf_model(int index) {
	return index >= 0 && (size_t)index < sizeof models / sizeof *models ? &models[index] : NULL;
}

const struct gpuconf_capability *gpuconf_capability(int major, int minor) {
	for (int i = 0; i < CAPABILITIES; i++)
		if (capabilities[i].major == major && capabilities[i].minor == minor)
			return &capabilities[i];
	return NULL;
}

const struct gpuconf_driver *gpuconf_driver(int index) {
	return index >= 0 && (size_t)index < sizeof drivers / sizeof *drivers ? &drivers[index] : NULL;
}

const struct gpuconf_slice *gpuconf_slice(const struct gpuconf_model *model) {
	for (size_t i = 0; i < sizeof slices / sizeof *slices; i++)
		if (strcmp(slices[i].model, model->name) == 0)
			return &slices[i];
	return NULL;
}

uint64_t gpuconf_reserved(const struct gpuconf_model *model) {
	for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
		if (strcmp(reserved[i].model, model->name) == 0)
			return reserved[i].bytes;
	return 0;
}

uint64_t gpuconf_context(uint64_t memory, int major) {
	int row = 0;
	while (contexts[row].major < major) /* the last row is for all */
		row++;
	uint64_t usual = (uint64_t)contexts[row].mib << 20;
	return usual < memory / 8 ? usual : memory / 8;
}
