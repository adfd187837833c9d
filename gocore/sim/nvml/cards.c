/* SPDX-License-Identifier: Apache-2.0 */
/* The cards of a specification, as gocore/machine/models describes them to the driver and to gpuconf, too, and how much
 * of each is in use. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "nvml.h"

#include "../../machine/models/spec.h"
#include "../../machine/models/simulator.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 8-4-4-4-12 digits behind the kind. */
static void write_uuid(char *out, size_t room, const char *kind, const unsigned char uuid[16]) {
	int at = snprintf(out, room, "%s-", kind);
	for (int i = 0; i < 16; i++)
		at += snprintf(out + at, room - (size_t)at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

/* A card, and behind it its MIG instance if the container has one: the program sees both, and may use the instance
 * only. */
static void add(const struct gpuconf_card *simulated, int slot) {
	const struct gpuconf_model *model = simulated->model;
	struct device *card = &machine.device[machine.devices++];
	struct gpuconf_view view;

	gpuconf_see(simulated, slot, &view);
	*card = (struct device){.parent = -1,
	    .major = model->capability->major,
	    .minor = model->capability->minor,
	    .multiprocessors = model->multiprocessors,
	    .lanes = model->capability->lanes,
	    .clock = model->clock_mhz,
	    .memory_clock = model->memory_mhz,
	    .bus_bits = model->bus_bits,
	    .total = view.mig ? model->memory : view.total,
	    .reserved = simulated->memory == model->memory ? model->physical - model->memory : 0,
	    .mig = gpuconf_slice(model) != NULL ? MIG_OFF : MIG_NONE,
	    .shares_host = view.integrated,
	    .mps = view.mps,
	    .hides_use = view.wsl,
	    .addressing = view.host_page_tables ? 2 : 0,
	    .model = model,
	    .alone = view.integrated || gpuconf_is_alone(model, simulated->profile)};
	sscanf(view.bus, "%x:%x", &card->domain, &card->bus);
	snprintf(card->name, sizeof card->name, "%s", model->product);
	write_uuid(card->uuid, sizeof card->uuid, "GPU", view.uuid);
	if (!view.mig)
		return;
	struct device *instance = &machine.device[machine.devices++];
	*instance = *card;
	card->mig = MIG_ON;
	card->places = 1;
	card->restricted = 1;
	instance->mig = MIG_NONE;
	instance->parent = (int)(card - machine.device);
	instance->gi = 7; /* the first one of the smallest profile */
	instance->total = view.total;
	instance->reserved = 0;
	instance->multiprocessors = view.multiprocessors;
	snprintf(instance->name, sizeof instance->name, "%s", view.name);
	write_uuid(instance->uuid, sizeof instance->uuid, "MIG", view.instance);
}

/* The last driver of the table for a version of CUDA; an unknown version changes nothing. */
static void set_driver(int cuda) {
	const struct gpuconf_driver *driver;
	for (int i = 0; (driver = gpuconf_driver(i)) != NULL; i++)
		if (driver->cuda == cuda) {
			snprintf(machine.driver, sizeof machine.driver, "%s", driver->version);
			machine.cuda = cuda;
		}
}

/* Later cards of a specification set the version of the driver, which is one for the machine. */
int simulate(const char *spec, char *complaint, unsigned room) {
	struct gpuconf_card cards[GPUCONF_MOST_CARDS];
	int count = spec != NULL && *spec != '\0' ? gpuconf_read_spec(spec, strlen(spec), cards, complaint, room) : 0;
	set_driver(DEFAULT_CUDA);
	for (int i = 0; i < count; i++) {
		add(&cards[i], i);
		set_driver(cards[i].driver);
	}
	return count >= 0;
}

/*
 * How much memory of a card is in use, and which processes have it: from the file that the processes of a job share
 * (gocore/lease/budget), so that a program sees it without a CUDA driver of its own; without one, what the simulated
 * driver of this process says, the libcuda.so.1 beside this library.
 */

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

/* Opened anew at each first nvmlInit, since the variable may have changed. */
int open_shared_cards(char *complaint, unsigned room) {
	const char *path = secure_getenv(SHARED_CARDS);
	HOLD(lock);
	if (state == SHARED)
		close_budget(&budget);
	state = UNKNOWN;
	if (path == NULL || *path == '\0')
		state = ALONE;
	else if (open_budget(path, 1, &budget, trouble, sizeof trouble))
		state = SHARED;
	else
		snprintf(complaint, room, SHARED_CARDS ": the file %.200s cannot be used: %s", path, trouble);
	return state != UNKNOWN;
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

/* Asked of the driver beside this library only: another libcuda.so.1 would be a real one. */
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

/* The job's file, if it has the card; else this process alone. */
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
