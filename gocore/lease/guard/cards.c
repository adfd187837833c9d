/* SPDX-License-Identifier: Apache-2.0 */
/* Which card of the budgets a device of CUDA's is: by UUID, because CUDA's order may differ from NVML's. */
#include "guard.h"

#include <string.h>

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

int card_of_uuid(const uint8_t uuid[16]) {
	pthread_mutex_lock(&lock);
	int card = card_locked(uuid);
	pthread_mutex_unlock(&lock);
	return card;
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
			note("device %d is not one of this job's: allocations on it are refused", device);
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
	return location->type == LOCATION_DEVICE || location->type == LOCATION_DEVICE_LOCALITY_DOMAIN;
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
		return result != CUDA_SUCCESS ? result : count == 0 ? CUDA_ERROR_NO_DEVICE : current_device(device);
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
