/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML says of a card that has a limit. Cards are told apart by UUID, because NVML's order may differ from CUDA's.
 */
#include "guard.h"

#include <string.h>

static int digit(char letter) {
	if (letter >= '0' && letter <= '9')
		return letter - '0';
	letter |= 0x20;
	return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* "GPU-" or "MIG-" and 32 digits with dashes. */
static int parse_uuid(const char *text, uint8_t uuid[16]) {
	int digits = 0;

	if (strlen(text) < 4)
		return 0;
	for (text += 4; *text != 0 && digits < 32; text++) {
		if (*text == '-')
			continue;
		if (digit(*text) < 0)
			return 0;
		uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | digit(*text));
		digits++;
	}
	return digits == 32 && *text == 0;
}

static int limited(void *device, struct card_use *use) {
	char text[96] = "";
	uint8_t uuid[16] = {0};

	if (real.nvmlDeviceGetUUID == NULL || INSIDE(real.nvmlDeviceGetUUID(device, text, sizeof text)) != 0 ||
	    !parse_uuid(text, uuid))
		return 0;
	for (int level = 0; level < budget_levels(); level++)
		if (place_in_level(level, uuid) < 0)
			return 0; /* not one of the job's cards: as it is */
	settle_if_changed();
	card_use(card_of_uuid(uuid), use);
	return 1;
}

static unsigned long long smaller(unsigned long long a, unsigned long long b) { return a < b ? a : b; }

EXPORT CUresult nvmlDeviceGetMemoryInfo(void *device, nvmlMemory *memory) {
	struct card_use use;

	GIVES(nvmlDeviceGetMemoryInfo, (device, memory));
	CUresult result = INSIDE(real.nvmlDeviceGetMemoryInfo(device, memory));
	if (result == 0 && memory != NULL && limited(device, &use)) {
		memory->total = smaller(memory->total, use.limit);
		memory->free = smaller(memory->total, smaller(memory->free, use.left)); /* under WSL2 free may be wrong */
		memory->used = memory->total - memory->free;
	}
	return result;
}

EXPORT CUresult nvmlDeviceGetMemoryInfo_v2(void *device, nvmlMemory_v2 *memory) {
	struct card_use use;

	GIVES(nvmlDeviceGetMemoryInfo_v2, (device, memory));
	CUresult result = INSIDE(real.nvmlDeviceGetMemoryInfo_v2(device, memory));
	if (result == 0 && memory != NULL && limited(device, &use)) {
		if (use.limit < memory->total)
			memory->reserved = 0; /* the driver's own part is no part of the limit */
		memory->total = smaller(memory->total, use.limit);
		memory->free = smaller(memory->free, use.left);
		memory->used = memory->total - smaller(memory->total, memory->free + memory->reserved);
	}
	return result;
}
