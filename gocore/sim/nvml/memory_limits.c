/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory limits of control groups (NVML of CUDA 13.4, NVIDIA's guide to MPS v3 memory partitioning), as the driver
 * keeps them on a kernel without the controller dmem: a group has its own limits, else those of the nearest group above
 * it. They last as long as this process, and bind no allocation of the simulated driver.
 */
#include "nvml.h"

#ifndef FAKE_NVML_OLD

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_CUDA = 13040, MOST_LIMITS = 256 };
#define UNLIMITED (~0ULL) /* NVML_DEVICE_MEMORY_LIMIT_MAX */

struct set_limits {
	const char *name_space;
	unsigned long long soft, hard;
};

struct get_limits {
	const char *name_space;
	unsigned long long soft, hard, used;
};

static struct limits {
	const struct device *device;
	char *group;
	unsigned long long soft, hard;
} kept[MOST_LIMITS]; /* guarded by lock, as is count */
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct limits *limits_of(const struct device *device, const char *group, size_t length) {
	for (int i = 0; i < count; i++)
		if (kept[i].device == device && strlen(kept[i].group) == length && memcmp(kept[i].group, group, length) == 0)
			return &kept[i];
	return NULL;
}

static int refusal(const struct device *device, const char *group) {
	struct stat folder;

	if (machine.cuda < FIRST_CUDA)
		return FUNCTION_NOT_FOUND;
	if (device->parent >= 0)
		return NOT_SUPPORTED;
	if (group == NULL || group[0] != '/')
		return INVALID_ARGUMENT;
	return stat(group, &folder) == 0 && S_ISDIR(folder.st_mode) ? SUCCESS : NOT_FOUND;
}

#pragma GCC visibility push(default)

int nvmlDeviceGetMemoryLimits_v1(struct device *device, struct get_limits *limits) {
	BEGIN_SIMULATED(device, limits);
	int refused = refusal(device, limits->name_space);
	if (refused)
		return refused;
	const struct limits *found = NULL;
	pthread_mutex_lock(&lock);
	for (size_t length = strlen(limits->name_space); length > 0 && found == NULL; length--)
		if (limits->name_space[length] == '\0' || limits->name_space[length] == '/')
			found = limits_of(device, limits->name_space, length);
	limits->soft = found == NULL ? 0 : found->soft;
	limits->hard = found == NULL ? UNLIMITED : found->hard;
	pthread_mutex_unlock(&lock);
	limits->used = used_here(device->uuid);
	return SUCCESS;
}

int nvmlDeviceSetMemoryLimits_v1(struct device *device, const struct set_limits *limits) {
	BEGIN_SIMULATED(device, limits);
	int refused = refusal(device, limits->name_space);
	if (!refused && limits->soft > limits->hard)
		refused = INVALID_ARGUMENT;
	if (!refused && geteuid() != 0)
		refused = NO_PERMISSION;
	if (refused)
		return refused;
	HOLD(lock);
	struct limits *found = limits_of(device, limits->name_space, strlen(limits->name_space));
	if (found == NULL && count < MOST_LIMITS && (kept[count].group = strdup(limits->name_space)) != NULL) {
		found = &kept[count++];
		found->device = device;
	}
	if (found != NULL)
		found->soft = limits->soft, found->hard = limits->hard;
	return found != NULL ? SUCCESS : INSUFFICIENT_RESOURCES;
}

#pragma GCC visibility pop

#endif
