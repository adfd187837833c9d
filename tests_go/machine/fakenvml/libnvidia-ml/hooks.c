/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strict mode of the simulated NVML, for tests: a machine that a text file describes. A test builds this file with
 * the library's own and GPUCONF_TEST_HOOKS: the wheel's library reads no FAKE_NVML.
 *
 * FAKE_NVML names the file, which nvmlInit reads each time. FAKE_NVML_LOG, if set, names a file to which each call's
 * name is written.
 *
 *     driver 550.54.15
 *     cuda 12040
 *     card GPU-1 domain=0 bus=23 device=0 cc=9.0 mig=off total=85899345920 used=1048576 NVIDIA H100 80GB HBM3
 *     process 4711 bytes=1024 list=compute gi=-1 ci=-1
 *     instance MIG-1 gi=1 ci=0 total=10737418240 used=0 NVIDIA H100 80GB HBM3 MIG 1g.10gb
 *     addressing ats
 *     live
 *     fail nvmlDeviceGetMemoryInfo 3
 *     fail nvmlDeviceGetName 15 GPU-1
 *
 * "addressing" sets the addressing mode of the card above it: "none", "hmm" or "ats". With "live" its use grows by what
 * the driver has given out, as the calling thread's context sees it. A card's mig is "none", "off" or "on", and it has
 * room for MAX_INSTANCES instances. A line "hole" among them stands for a place without an instance. A process belongs
 * to the card above it; "bytes=-1" is memory that the driver does not know; its list is "compute", "mps" or "graphics".
 * A call fails with the given number, for one UUID or for all.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../../../gocore/sim/nvml/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	char function[64], uuid[80];
	int result;
} failures[64];
static int failure_count;

static struct process {
	int card;
	char list[16];
	struct info info;
} described[256];
static unsigned processes;
static int live[MAX_DEVICES];

static void misread(const char *line) {
	fprintf(stderr, "fake NVML: can't read the line: %s", line);
	abort();
}

static void read_card(const char *line) {
	struct device *card = &machine.device[machine.devices++];
	char mig[8];
	if (sscanf(line, "card %79s domain=%u bus=%u device=%u cc=%d.%d mig=%7s total=%llu used=%llu %95[^\n]", card->uuid,
	        &card->domain, &card->bus, &card->slot, &card->major, &card->minor, mig, &card->total, &card->used,
	        card->name) != 10)
		misread(line);
	card->parent = -1;
	card->mig = strcmp(mig, "off") == 0 ? MIG_OFF : MIG_NONE;
	if (strcmp(mig, "on") == 0)
		card->mig = MIG_ON;
}

static int last_card(void) {
	int last = machine.devices - 1;
	return machine.device[last].parent < 0 ? last : machine.device[last].parent;
}

static void read_instance(const char *line) {
	int parent = last_card();
	struct device *instance = &machine.device[machine.devices++];
	if (sscanf(line, "instance %79s gi=%d ci=%d total=%llu used=%llu %95[^\n]", instance->uuid, &instance->gi,
	        &instance->ci, &instance->total, &instance->used, instance->name) != 6)
		misread(line);
	instance->parent = parent;
	instance->place = machine.device[parent].places++;
}

static void read_process(const char *line) {
	struct process *process = &described[processes++];
	unsigned pid;
	long long bytes;
	int gi, ci;
	if (sscanf(line, "process %u bytes=%lld list=%15s gi=%d ci=%d", &pid, &bytes, process->list, &gi, &ci) != 5)
		misread(line);
	process->card = last_card();
	process->info = (struct info){pid, (unsigned long long)bytes, (unsigned)gi, (unsigned)ci};
}

static void read_addressing(const char *line) {
	static const char *const modes[] = {"none", "hmm", "ats"};
	char mode[8] = "";
	if (sscanf(line, "addressing %7s", mode) != 1)
		misread(line);
	for (unsigned i = 0; i < 3; i++)
		if (strcmp(mode, modes[i]) == 0)
			machine.device[last_card()].addressing = i;
}

static int read_failure(const char *line) {
	char *uuid = failures[failure_count].uuid;
	*uuid = '\0'; /* that of a line before it, for any card */
	int read =
	    sscanf(line, "fail %63s %d %79s", failures[failure_count].function, &failures[failure_count].result, uuid);
	failure_count += read >= 2;
	return read >= 2;
}

int hooks_describe(void) {
	const char *path = secure_getenv("FAKE_NVML");
	FILE *file = path == NULL ? NULL : fopen(path, "r");
	char line[512];
	failure_count = 0;
	processes = 0;
	memset(live, 0, sizeof live);
	while (file != NULL && fgets(line, sizeof line, file) != NULL) {
		if (strncmp(line, "card ", 5) == 0)
			read_card(line);
		else if (strncmp(line, "instance ", 9) == 0)
			read_instance(line);
		else if (strncmp(line, "hole", 4) == 0)
			machine.device[last_card()].places++;
		else if (strncmp(line, "live", 4) == 0)
			live[last_card()] = 1;
		else if (strncmp(line, "addressing ", 11) == 0)
			read_addressing(line);
		else if (strncmp(line, "process ", 8) == 0)
			read_process(line);
		else if (!read_failure(line) && sscanf(line, "driver %79s", machine.driver) != 1 &&
		         sscanf(line, "cuda %d", &machine.cuda) != 1)
			misread(line);
	}
	if (file != NULL)
		fclose(file);
	return path != NULL;
}

int hooks_of_call(const char *function, const struct device *device) {
	for (int i = 0; i < failure_count; i++)
		if (strcmp(failures[i].function, function) == 0 &&
		    (failures[i].uuid[0] == '\0' || (device != NULL && strcmp(failures[i].uuid, device->uuid) == 0)))
			return failures[i].result;
	return SUCCESS;
}

/* What the driver of this process says. It is looked for and never loaded. */
unsigned long long hooks_used(const struct device *device) {
	void *driver = live[device - machine.device] ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
	int (*info)(size_t *, size_t *) =
	    driver == NULL ? NULL : (int (*)(size_t *, size_t *))dlsym(driver, "cuMemGetInfo_v2");
	size_t available = 0, total = 0;
	if (info != NULL && info(&available, &total) != 0)
		available = total = 0;
	return total - available;
}

/* Processes are described with their card, and belong to an instance by its two numbers. */
static int runs_on(const struct process *process, const struct device *device) {
	int on_card = process->card == device - machine.device;
	int on_instance =
	    device->parent == process->card && device->gi == (int)process->info.gi && device->ci == (int)process->info.ci;
	return device->parent < 0 ? on_card : on_instance;
}

unsigned hooks_processes(const struct device *device, const char *list, struct info *out) {
	unsigned found = 0;
	for (unsigned i = 0; i < processes; i++)
		if (strcmp(described[i].list, list) == 0 && runs_on(&described[i], device))
			out[found++] = described[i].info;
	return found;
}

void hooks_note(const char *function) {
	const char *path = secure_getenv("FAKE_NVML_LOG");
	FILE *file = path == NULL ? NULL : fopen(path, "a");
	if (file == NULL)
		return;
	fprintf(file, "%s\n", function);
	fclose(file);
}
