/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of events. Nothing happens to a simulated card, so who waits waits until the time is over. Answers as recorded
 * on an H200 with driver 580 (tests_py/driver/calls/facts.py).
 */
#include "nvml.h"

#ifndef FAKE_NVML_OLD

#include <time.h>

enum { SUPPORTED_TYPES = 0xff9f, MOST_SETS = 256, LOOK_MS = 50 };

/* A handle is the address of one of these, so that a wrong one is noticed. */
static char sets[MOST_SETS];

static int is_set(const char *set) {
	return set >= sets && set < sets + MOST_SETS && __atomic_load_n(set, __ATOMIC_ACQUIRE);
}

#pragma GCC visibility push(default)

int nvmlEventSetCreate(char **set) {
	BEGIN_SYSTEM(NULL, set);
	SIMULATED();
	for (char *one = sets; one < sets + MOST_SETS; one++)
		if (!__atomic_exchange_n(one, 1, __ATOMIC_ACQ_REL)) {
			*set = one;
			return SUCCESS;
		}
	return INSUFFICIENT_RESOURCES;
}

int nvmlEventSetFree(char *set) {
	BEGIN_SYSTEM(NULL, set);
	SIMULATED();
	if (!is_set(set))
		return INVALID_ARGUMENT;
	__atomic_store_n(set, 0, __ATOMIC_RELEASE);
	return SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(struct device *device, unsigned long long *types) {
	BEGIN(device, types);
	SIMULATED();
	*types = SUPPORTED_TYPES;
	return SUCCESS;
}

int nvmlDeviceRegisterEvents(struct device *device, unsigned long long types, char *set) {
	BEGIN(device, set);
	SIMULATED();
	if (!is_set(set))
		return INVALID_ARGUMENT;
	return types & ~(unsigned long long)SUPPORTED_TYPES ? NOT_SUPPORTED : SUCCESS;
}

static int64_t now_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A time of 2^32 - 1 has no end, as in NVML, until another thread frees the set or stops NVML. */
static int wait_for_nothing(const char *function, char *set, unsigned milliseconds) {
	int64_t end = now_ms() + milliseconds;
	for (;;) {
		int64_t left = milliseconds == UINT32_MAX ? LOOK_MS : end - now_ms();
		int refused = begin(function, NULL);
		if (refused || !is_set(set))
			return refused ? refused : INVALID_ARGUMENT;
		if (left <= 0)
			return TIMEOUT;
		struct timespec pause = {0, (left < LOOK_MS ? left : LOOK_MS) * 1000000L};
		nanosleep(&pause, NULL);
	}
}

int nvmlEventSetWait_v2(char *set, void *event, unsigned milliseconds) {
	BEGIN_SYSTEM(NULL, event);
	SIMULATED();
	return wait_for_nothing(__func__, set, milliseconds);
}

int nvmlEventSetWait(char *set, void *event, unsigned milliseconds) {
	return nvmlEventSetWait_v2(set, event, milliseconds);
}

#endif
