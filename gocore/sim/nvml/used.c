/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory of a card is in use, and which processes have it: from the file that the processes of a job share
 * (gocore/lease/budget), so that a program sees it without a CUDA driver of its own; without one, what the simulated
 * driver of this process says, the libcuda.so.1 beside this library.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "nvml.h"

#include "../../machine/models/simulator.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct budget budget; /* guarded by lock, as is state */
static enum { UNKNOWN, ALONE, SHARED } state;
static char trouble[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken after nvml.c's */

void lock_shared_cards(void) { pthread_mutex_lock(&lock); }

void unlock_shared_cards(void) { pthread_mutex_unlock(&lock); }

void budget_note(const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	fputs("gpuconf's simulated NVML: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

int open_shared_cards(char *complaint, unsigned room) {
	const char *path = secure_getenv(SHARED_CARDS);

	pthread_mutex_lock(&lock);
	if (state == SHARED)
		close_budget(&budget);
	state = path == NULL || *path == '\0'                            ? ALONE
	        : open_budget(path, 1, &budget, trouble, sizeof trouble) ? SHARED
	                                                                 : UNKNOWN;
	if (state == UNKNOWN)
		snprintf(complaint, room, SHARED_CARDS ": the file %.200s cannot be used: %s", path, trouble);
	int usable = state != UNKNOWN;
	pthread_mutex_unlock(&lock);
	return usable;
}

static int digit(char letter) { return letter <= '9' ? letter - '0' : (letter | 0x20) - 'a' + 10; }

/* The place of a card in the file; -1: it is not there, as the program has chosen another machine than its job's. The
 * UUID is one of this library's own texts. */
static int place_of(const char *uuid) {
	unsigned char number[16] = {0};
	int digits = 0;

	for (const char *at = uuid + 4; *at != '\0' && digits < 32; at++)
		if (*at != '-') {
			number[digits / 2] = (unsigned char)(number[digits / 2] << 4 | digit(*at));
			digits++;
		}
	return place_in_budget(&budget, number);
}

static uint64_t in_this_process(const char *uuid) {
	static const char driver[] = "libcuda.so.1";
	char path[PATH_MAX];
	Dl_info self;
	uint64_t total = 0, used = 0;

	if (dladdr((void *)used_here, &self) == 0 || self.dli_fname == NULL)
		return 0;
	const char *slash = strrchr(self.dli_fname, '/');
	size_t folder = slash == NULL ? 0 : (size_t)(slash + 1 - self.dli_fname);
	if (folder == 0 || folder + sizeof driver > sizeof path)
		return 0;
	memcpy(path, self.dli_fname, folder);
	memcpy(path + folder, driver, sizeof driver);
	void *library =
	    dlopen(path, RTLD_NOW | RTLD_NOLOAD); /* only if it is loaded already: a question starts no driver */
	if (library == NULL)
		return 0;
	int (*ask)(const char *, uint64_t *, uint64_t *) =
	    (int (*)(const char *, uint64_t *, uint64_t *))dlsym(library, "gpuconf_simulator_used");
	if (ask != NULL && ask(uuid, &total, &used) != 0)
		used = 0;
	dlclose(library);
	return used;
}

uint64_t used_here(const char *uuid) {
	uint64_t used = 0;

	pthread_mutex_lock(&lock);
	int place = state == SHARED ? place_of(uuid) : -1;
	if (place >= 0) {
		uint64_t total = budget.file->card[place].limit;
		used = used_of(&budget, place) + pools_of(&budget, place);
		used = used < total ? used : total; /* managed memory may exceed the card */
	}
	pthread_mutex_unlock(&lock);
	return place >= 0 ? used : in_this_process(uuid);
}

/* Processes that have a context or memory. */
int processes_here(const char *uuid, struct budget_process *out, int room) {
	int count = 0, kept = 0;

	pthread_mutex_lock(&lock);
	int place = state == SHARED ? place_of(uuid) : -1;
	if (place >= 0)
		count = processes_of(&budget, place, out, room);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < count; i++)
		if (out[i].used > 0 || out[i].pools > 0 || out[i].contexts > 0)
			out[kept++] = out[i];
	uint64_t used = place >= 0 ? 0 : in_this_process(uuid);
	if (used > 0 && room > 0)
		out[kept++] = (struct budget_process){.pid = (uint32_t)getpid(), .used = used};
	return kept;
}
