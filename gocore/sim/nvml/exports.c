/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of functions without names that NVIDIA's nvidia-smi requests. NVIDIA does not document them, and none but
 * five does anything here: each returns NVML_ERROR_NOT_SUPPORTED, and nvidia-smi then prints N/A. Drivers 550 and 555
 * answer an unknown identifier so, and begin the table with its size in bytes; nvidia-smi of 470 to 555 requests this
 * one.
 *
 * Three list processes for nvidia-smi of 535 to 555, with their names. That of 470 calls NVML's own functions. One says
 * how two cards, given by the texts of their buses, are connected, for `nvidia-smi topo -m`; another one whether a card
 * can be watched, for `pmon` and `dmon`.
 */
#include "nvml.h"

#ifndef FAKE_NVML_OLD

#include <string.h>

enum {
	CONNECTION = 22,
	WATCHED = 71,
	COMPUTE = 212,
	MPS,
	GRAPHICS,
	FUNCTIONS = 511
}; /* driver 550 has 250, and 555 has 254 */

static int without_a_name(void) { return unsupported("a function of nvmlInternalGetExportTable"); }

/* A row of the lists: NVML's nvmlProcessDetail_v1_t, and the name. */
struct named {
	struct info info;
	unsigned long long protected_bytes;
	char name[4096];
};
_Static_assert(sizeof(struct named) == 4128, "as nvidia-smi reads it");

typedef int list(struct device *device, unsigned *room, struct info *infos);
list nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v3,
    nvmlDeviceGetGraphicsRunningProcesses_v3;
int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size);

static int with_names(list *of, struct device *device, unsigned *room, struct named *rows) {
	struct info infos[MAX_SLOTS];
	if (room != NULL && *room > MAX_SLOTS)
		*room = MAX_SLOTS;
	int result = of(device, room, infos);
	for (unsigned i = 0; result == SUCCESS && i < *room; i++) {
		rows[i] = (struct named){.info = infos[i]};
		nvmlSystemGetProcessName(infos[i].pid, rows[i].name, sizeof rows[i].name); /* "" if it has ended */
	}
	return result;
}

#define LISTS(name, of) \
	static int name(struct device *device, unsigned *room, struct named *rows) { \
		return with_names(of, device, room, rows); \
	}
LISTS(mps, nvmlDeviceGetMPSComputeRunningProcesses_v3)
LISTS(graphics, nvmlDeviceGetGraphicsRunningProcesses_v3)

/* nvidia-smi shows those of the multi-process service only if they are in both lists, as M+C. */
static int compute(struct device *device, unsigned *room, struct named *rows) {
	if (is_device(device) && device->mps)
		return mps(device, room, rows);
	return with_names(nvmlDeviceGetComputeRunningProcesses_v3, device, room, rows);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **found);
int nvmlDeviceGetTopologyCommonAncestor(struct device *one, struct device *other, unsigned *level);

/* In nvidia-smi's order: PIX, PXB, PHB, NODE, SYS, and numbers of NVLinks. */
static int connection(const char *one, const char *other, unsigned *out) {
	struct device *first, *second;
	unsigned level;
	int result = out == NULL ? INVALID_ARGUMENT : nvmlDeviceGetHandleByPciBusId_v2(one, &first);

	if (result == SUCCESS)
		result = nvmlDeviceGetHandleByPciBusId_v2(other, &second);
	if (result == SUCCESS)
		result = nvmlDeviceGetTopologyCommonAncestor(first, second, &level);
	if (result == SUCCESS)
		*out = level / 10 - 1;
	return result;
}

static int watched(struct device *device, unsigned *out) {
	BEGIN_SIMULATED(device, out);
	*out = 1;
	return SUCCESS;
}

static const unsigned char identifier[16] = {
    0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
#define AS_FUNCTION(name) (void (*)(void))(name)
static const struct {
	size_t size;
	void (*function[FUNCTIONS])(void);
} table = {sizeof table, {[0 ... CONNECTION - 1] = AS_FUNCTION(without_a_name),
                             [CONNECTION] = AS_FUNCTION(connection),
                             [CONNECTION + 1 ... WATCHED - 1] = AS_FUNCTION(without_a_name),
                             [WATCHED] = AS_FUNCTION(watched),
                             [WATCHED + 1 ... COMPUTE - 1] = AS_FUNCTION(without_a_name),
                             [COMPUTE] = AS_FUNCTION(compute),
                             [MPS] = AS_FUNCTION(mps),
                             [GRAPHICS] = AS_FUNCTION(graphics),
                             [GRAPHICS + 1 ... FUNCTIONS - 1] = AS_FUNCTION(without_a_name)}};

__attribute__((visibility("default"))) int nvmlInternalGetExportTable(
    const void **out, const unsigned char *requested) {
	if (out == NULL || requested == NULL || memcmp(requested, identifier, sizeof identifier) != 0)
		return INVALID_ARGUMENT;
	*out = &table;
	return SUCCESS;
}

#endif
