/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's cards, and what a program, NVML and gpuconf's own library see of them: a card as large as its limit, with
 * as much free as the limit leaves.
 */
#include "guard.h"

#include <string.h>

static uint64_t idle_of_pools(CUdevice device);

struct card cards[MAX_DEVICES];
static int known_cards; /* guarded by lock, and only grows */
static int devices;     /* 0: not asked yet */
static int of_device[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int in_a_budget(const uint8_t uuid[16]) {
	for (int level = 0; level < budget_levels(); level++)
		if (place_in_level(level, uuid) >= 0)
			return 1;
	return 0;
}

static int card_locked(const uint8_t uuid[16]) {
	for (int i = 0; i < known_cards; i++)
		if (memcmp(cards[i].uuid, uuid, 16) == 0)
			return i;
	if (known_cards == MAX_DEVICES)
		return NO_CARD;
	struct card *card = &cards[known_cards];
	memcpy(card->uuid, uuid, 16);
	for (int level = 0; level < budget_levels(); level++)
		card->place[level] = place_in_level(level, uuid);
	return known_cards++;
}

static int card_of_uuid(const uint8_t uuid[16]) {
	HOLD(lock);
	return card_locked(uuid);
}

/* An instance of a card has a UUID of its own (_v2), and the budget may name either. */
static int find_card(CUdevice device) {
	uint8_t instance[16], card[16];
	int has_instance =
	    real.cuDeviceGetUuid_v2 != NULL && INSIDE(real.cuDeviceGetUuid_v2(instance, device)) == CUDA_SUCCESS;
	int has_card = real.cuDeviceGetUuid != NULL && INSIDE(real.cuDeviceGetUuid(card, device)) == CUDA_SUCCESS;

	if (has_instance && (!has_card || in_a_budget(instance) || !in_a_budget(card)))
		return card_locked(instance);
	return has_card ? card_locked(card) : NO_CARD;
}

static void find_devices(void) {
	int count = 0;

	if (real.cuDeviceGetCount == NULL || INSIDE(real.cuDeviceGetCount(&count)) != CUDA_SUCCESS)
		return;
	if (count > MAX_DEVICES)
		count = MAX_DEVICES;
	for (CUdevice device = 0; device < count; device++) {
		of_device[device] = find_card(device);
		if (of_device[device] == NO_CARD)
			note("device %d does not report its UUID: allocations on it are refused until it does", device);
		else if (!in_a_budget(cards[of_device[device]].uuid))
			note("device %d is not one of this job's: allocations on it are refused. Leave CUDA_VISIBLE_DEVICES as "
			     "gpuconf sets it, or lease more GPUs with --gpus",
			    device);
	}
	__atomic_store_n(&devices, count, __ATOMIC_RELEASE);
}

int device_count(void) {
	if (UNLIKELY(__atomic_load_n(&devices, __ATOMIC_ACQUIRE) == 0)) {
		pthread_mutex_lock(&lock);
		if (devices == 0)
			find_devices();
		pthread_mutex_unlock(&lock);
	}
	return devices;
}

int card_of_device(CUdevice device) {
	if (device < 0 || device >= device_count())
		return NO_CARD;
	if (UNLIKELY(of_device[device] == NO_CARD)) {
		pthread_mutex_lock(&lock);
		of_device[device] = find_card(device);
		pthread_mutex_unlock(&lock);
	}
	return of_device[device];
}

/* A device without a card may be an invalid one, which is the driver's to refuse. */
int may_exist(CUdevice device) { return device >= 0 && (device_count() == 0 || device < devices); }

/* Whether memory of this location is a device's, and which one's. */
int on_device(const CUmemLocation *location, CUdevice *device) {
	*device = location->type == LOCATION_DEVICE_LOCALITY_DOMAIN ? location->id & 0xff : location->id;
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE || location->type == LOCATION_DEVICE_LOCALITY_DOMAIN;
}

/* With one device there is no need to ask. */
CUresult current_device(CUdevice *device) {
	int count = device_count();

	*device = 0;
	if (LIKELY(count == 1))
		return CUDA_SUCCESS;
	if (count == 0) { /* the driver's own reason, such as that it is not initialized */
		CUresult result =
		    real.cuDeviceGetCount == NULL ? CUDA_ERROR_NOT_SUPPORTED : INSIDE(real.cuDeviceGetCount(&count));
		if (result == CUDA_SUCCESS)
			result = count == 0 ? CUDA_ERROR_NO_DEVICE : current_device(device);
		return result;
	}
	if (real.cuCtxGetDevice == NULL) {
		NOTE_ONCE("the driver lacks cuCtxGetDevice: everything is charged to device 0");
		return CUDA_SUCCESS;
	}
	return INSIDE(real.cuCtxGetDevice(device));
}

/* The driver's reason if there is no device, else that the request cannot be counted. */
CUresult no_card(void) {
	CUdevice device;
	CUresult result = device_count() == 0 ? current_device(&device) : CUDA_ERROR_OUT_OF_MEMORY;

	return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

void forget_cards(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
	known_cards = devices = 0;
}

/* What programs see: a card as large as the limit, with as much free as the limit leaves. */

/*
 * What gpuconf's pools have in this process and is in no block is free, too: PyTorch, for example, gets its memory from
 * them. A library that calls the driver itself gets less: for it, as for other processes, that memory is taken.
 */
#define INFO(type, call) \
	CUdevice device; \
	struct card_use use; \
	CUresult result = INSIDE(call); \
	if (result == CUDA_SUCCESS) \
		result = current_device(&device); \
	if (result != CUDA_SUCCESS) \
		return result; \
	settle_if_changed(); \
	card_use(card_of_device(device), &use); \
	if (available != NULL) \
		*available = (type)smaller(smaller(*available, use.left) + idle_of_pools(device), use.limit); \
	if (total != NULL) \
		*total = (type)smaller(*total, use.limit); \
	return CUDA_SUCCESS

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
	GIVES(cuMemGetInfo_v2, (available, total));
	INFO(size_t, real.cuMemGetInfo_v2(available, total));
}

EXPORT CUresult cuMemGetInfo(unsigned int *available, unsigned int *total) {
	GIVES(cuMemGetInfo, (available, total));
	INFO(unsigned int, real.cuMemGetInfo(available, total));
}

#define TOTAL(type, call) \
	CUresult result = INSIDE(call); \
	if (LIKELY(result == CUDA_SUCCESS)) \
		*bytes = (type)smaller(*bytes, card_limit(card_of_device(device))); \
	return result

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
	ASKS(cuDeviceTotalMem_v2, (bytes, device));
	TOTAL(size_t, real.cuDeviceTotalMem_v2(bytes, device));
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device) {
	ASKS(cuDeviceTotalMem, (bytes, device));
	TOTAL(unsigned int, real.cuDeviceTotalMem(bytes, device));
}

/* What NVML says of a card that has a limit. Cards are told apart by UUID, because NVML's order may differ from CUDA's.
 */

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

/* Memory of its own pools that is in no block is free to a process. */
static uint64_t idle_of_card(int card) {
	int count = __atomic_load_n(&devices, __ATOMIC_ACQUIRE);

	for (CUdevice device = 0; device < count; device++)
		if (of_device[device] == card)
			return idle_of_pools(device);
	return 0;
}

/* NO_CARD for a card that the job does not have. */
static int card_of_job(const uint8_t uuid[16]) {
	if (!ready())
		return NO_CARD;
	for (int level = 0; level < budget_levels(); level++)
		if (place_in_level(level, uuid) < 0)
			return NO_CARD;
	settle_if_changed();
	return card_of_uuid(uuid);
}

static int limited(void *device, struct card_use *use, uint64_t *idle) {
	char text[96] = "";
	uint8_t uuid[16] = {0};

	if (real.nvmlDeviceGetUUID == NULL || INSIDE(real.nvmlDeviceGetUUID(device, text, sizeof text)) != 0 ||
	    !parse_uuid(text, uuid))
		return 0;
	int card = card_of_job(uuid);
	if (card == NO_CARD) /* as it is */
		return 0;
	card_use(card, use);
	*idle = idle_of_card(card);
	return 1;
}

EXPORT CUresult nvmlDeviceGetMemoryInfo(void *device, nvmlMemory *memory) {
	struct card_use use;
	uint64_t idle;

	ASKS(nvmlDeviceGetMemoryInfo, (device, memory));
	CUresult result = INSIDE(real.nvmlDeviceGetMemoryInfo(device, memory));
	if (result == 0 && memory != NULL && limited(device, &use, &idle)) {
		memory->total = smaller(memory->total, use.limit);
		memory->free =
		    smaller(memory->total, smaller(memory->free, use.left) + idle); /* under WSL2 free may be wrong */
		memory->used = memory->total - memory->free;
	}
	return result;
}

EXPORT CUresult nvmlDeviceGetMemoryInfo_v2(void *device, nvmlMemory_v2 *memory) {
	struct card_use use;
	uint64_t idle;

	ASKS(nvmlDeviceGetMemoryInfo_v2, (device, memory));
	CUresult result = INSIDE(real.nvmlDeviceGetMemoryInfo_v2(device, memory));
	if (result == 0 && memory != NULL && limited(device, &use, &idle)) {
		if (use.limit < memory->total)
			memory->reserved = 0; /* the driver's own part is no part of the limit */
		memory->total = smaller(memory->total, use.limit);
		memory->free = smaller(memory->total, smaller(memory->free, use.left) + idle);
		memory->used = memory->total - smaller(memory->total, memory->free + memory->reserved);
	}
	return result;
}

/*
 * What gpuconf's own library finds here (dlsym on the driver's handle): the figures of a card, and driver functions for
 * its pools, whose memory is counted once and marked as the pools'.
 */

/* Returns 0 for a card that the job does not have. */
EXPORT int gpuconf_guard_figures(const uint8_t uuid[16], struct card_figures *out) {
	int card = card_of_job(uuid);

	if (card == NO_CARD)
		return 0;
	card_figures(card, out);
	return 1;
}

/* The processes that have memory of the card under the limit that gpuconf_guard_figures shows. Returns how many. */
EXPORT int gpuconf_guard_processes(const uint8_t uuid[16], struct card_process *out, int room) {
	int card = card_of_job(uuid);

	return card == NO_CARD ? 0 : card_processes(card, out, room);
}

static uint64_t (*idle)(int device); /* NULL without gpuconf's pools */

/* Says how the guard asks gpuconf's library what its pools in this process have in no block; NULL: it has none any
 * more. */
EXPORT void gpuconf_guard_idle(uint64_t (*function)(int device)) {
	__atomic_store_n(&idle, function, __ATOMIC_RELEASE);
}

/* The library's own question about a card is for what is outside of its pools. */
static uint64_t idle_of_pools(CUdevice device) {
	uint64_t (*function)(int) = __atomic_load_n(&idle, __ATOMIC_ACQUIRE);

	return function == NULL || for_pools ? 0 : function(device);
}

/* A child has none of the parent's pools. */
void forget_idle(void) { idle = NULL; }

static CUresult get_info(size_t *available, size_t *total) {
	for_pools = 1;
	CUresult result = cuMemGetInfo_v2(available, total);
	for_pools = 0;
	return result;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes) {
	for_pools = 1;
	CUresult result = cuMemAlloc_v2(out, bytes);
	for_pools = 0;
	return result;
}

static CUresult allocate_managed(CUdeviceptr *out, size_t bytes, unsigned int flags) {
	for_pools = 1;
	CUresult result = cuMemAllocManaged(out, bytes, flags);
	for_pools = 0;
	return result;
}

static CUresult create(
    CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
	for_pools = 1;
	CUresult result = cuMemCreate(out, bytes, prop, flags);
	for_pools = 0;
	return result;
}

/* The function that a pool calls in place of the driver's function of that name, or NULL. */
EXPORT void *gpuconf_guard_for_pools(const char *name) {
	if (strcmp(name, "cuMemAlloc_v2") == 0)
		return (void *)allocate;
	if (strcmp(name, "cuMemAllocManaged") == 0)
		return (void *)allocate_managed;
	if (strcmp(name, "cuMemCreate") == 0)
		return (void *)create;
	if (strcmp(name, "cuMemGetInfo_v2") == 0)
		return (void *)get_info;
	return NULL;
}
