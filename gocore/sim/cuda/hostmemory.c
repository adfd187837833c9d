/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's memory: how much is left of it, and what programs register.
 *
 * The host is not the card. Simulated memory is host memory that is committed when it is written, so a program can use
 * up the host's memory long before the card is full. A thread watches what the host and the process's control groups
 * have left. Before it is exhausted, it ends the program with one line: an error of CUDA would say that the card is
 * full, and the kernel's SIGKILL would say nothing.
 *
 * The less is left, the sooner the thread looks again: it sleeps for as long as the fastest writers would need for what
 * is left.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MARGIN (256 * MIB)           /* what the rest of the system is left */
#define FASTEST (UINT64_C(32) << 30) /* bytes that all threads together may write in a second */
#define MOST_NS UINT64_C(250000000)
#define LEAST_NS UINT64_C(1000000)
#define END_STATUS 71 /* EX_OSERR of sysexits.h */

struct room {
	uint64_t left;
	char where[512]; /* whose limit is the nearest */
};

/* The number behind a name in a file, in bytes; 0 if it is not there. A name of "" is the file's only number. */
static uint64_t number_in(const char *path, const char *name) {
	char line[256];
	uint64_t number = 0;
	size_t length = strlen(name);
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return 0;
	while (number == 0 && fgets(line, sizeof line, file) != NULL)
		if (strncmp(line, name, length) == 0)
			number = strtoull(line + length, NULL, 10);
	fclose(file);
	return number;
}

/* A control group of version 2, or of version 1's memory controller. Pages of files that the kernel drops first count
 * as left. */
static void look_at_group(const char *folder, int version, struct room *room) {
	char path[1100];
	snprintf(path, sizeof path, "%s/%s", folder, version == 2 ? "memory.max" : "memory.limit_in_bytes");
	uint64_t most = number_in(path, "");
	if (most == 0 || most >= UINT64_C(1) << 60) /* "max", or no such group */
		return;
	snprintf(path, sizeof path, "%s/%s", folder, version == 2 ? "memory.current" : "memory.usage_in_bytes");
	uint64_t used = number_in(path, "");
	snprintf(path, sizeof path, "%s/memory.stat", folder);
	uint64_t files = number_in(path, version == 2 ? "inactive_file " : "total_inactive_file ");
	used -= files < used ? files : used;
	uint64_t left = used < most ? most - used : 0;
	if (left < room->left) {
		room->left = left;
		snprintf(
		    room->where, sizeof room->where, "its control group may use %llu MiB", (unsigned long long)(most / MIB));
	}
}

/* A group's limit holds for the groups below it, so all of them up to the root count. */
static void look_at_groups(const char *root, char *group, int version, struct room *room) {
	char folder[1060];
	for (;;) {
		snprintf(folder, sizeof folder, "%s%s", root, group);
		look_at_group(folder, version, room);
		char *slash = strrchr(group, '/');
		if (slash == NULL || group[0] == 0)
			return;
		*slash = 0;
	}
}

/* Both versions of control groups may be there at one time (man 7 cgroups); a line of /proc/self/cgroup with the
 * number 0 and no controllers is version 2. */
static void look(struct room *room) {
	char line[1024];
	room->left = number_in("/proc/meminfo", "MemAvailable:") * 1024;
	snprintf(room->where, sizeof room->where, "the host has %llu MiB",
	    (unsigned long long)(number_in("/proc/meminfo", "MemTotal:") / 1024));
	FILE *file = fopen("/proc/self/cgroup", "re");
	while (file != NULL && fgets(line, sizeof line, file) != NULL) {
		line[strcspn(line, "\n")] = 0;
		char *controllers = strchr(line, ':'), *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
		if (group == NULL)
			continue;
		*group++ = 0;
		if (strcmp(line, "0") == 0 && controllers[1] == 0)
			look_at_groups("/sys/fs/cgroup", group, 2, room);
		else if (strstr(controllers + 1, "memory") != NULL)
			look_at_groups("/sys/fs/cgroup/memory", group, 1, room);
	}
	if (file != NULL)
		fclose(file);
}

/* Handlers and destructors would need memory, too. */
static void end_program(const struct room *room) {
	char text[1024];
	int length = snprintf(text, sizeof text,
	    "gpuconf: the simulated GPU's memory is host memory, and %llu MiB of it are left (%s). This process holds %llu "
	    "MiB. It ends before the kernel kills it. Use less memory, such as a smaller batch, end what else uses the "
	    "host's, or take a host with more; this is not a CUDA out-of-memory error\n",
	    (unsigned long long)(room->left / MIB), room->where,
	    (unsigned long long)(number_in("/proc/self/status", "VmRSS:") / 1024));
	ssize_t written = write(STDERR_FILENO, text, (size_t)length);
	(void)written;
	_exit(END_STATUS);
}

/* It holds no lock, so it runs while a copy does. */
static void *watch(void *unused) {
	const char *asked = TEST_VARIABLE("HOST_MARGIN");
	const uint64_t keep = asked != NULL ? strtoull(asked, NULL, 10) : MARGIN;
	struct room room;
	(void)unused;
	for (;;) {
		look(&room);
		if (room.left != 0 && room.left <= keep)
			end_program(&room);
		uint64_t ns = (room.left - keep) / (FASTEST / UINT64_C(1000000000));
		if (room.left == 0 || ns > MOST_NS)
			ns = MOST_NS;
		if (ns < LEAST_NS)
			ns = LEAST_NS;
		struct timespec moment = {0, (long)ns};
		nanosleep(&moment, NULL);
	}
	return NULL;
}

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* A small stack: the thread is one more in each process that uses a simulated GPU. */
static void start_watching(void) {
	pthread_t thread;
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
	start_thread(&thread, &small, watch, NULL); /* without it, the kernel has the last word */
	pthread_attr_destroy(&small);
}

void watch_host_memory(void) { pthread_once(&started, start_watching); }

/* Host memory of the program that it registers: page-locked from then on, but still the program's. */

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags);

/* Whether a range has any byte in common with one of a list. */
static int overlaps(struct range a, const struct allocation *list) {
	for (; list != NULL; list = list->next)
		if (a.addr < list->range.addr + list->range.bytes && list->range.addr < a.addr + a.bytes)
			return 1;
	return 0;
}

static void drop(struct allocation **link) {
	struct allocation *gone = TAKE_OUT(link);
	free(gone);
}

void end_registered(struct context *context) { DROP_EACH(m->registered, (*link)->context == context, drop); }

EXPORT CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
	const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
	CALLED(cuMemHostRegister);
	struct range range = {(uint64_t)(uintptr_t)memory, bytes};
	struct place place;
	IN_CONTEXT;
	if (memory == NULL || bytes == 0 || (flags & ~known) != 0 || range.addr + bytes < range.addr)
		return INVALID_VALUE;
	if (find_place(range.addr, &place) && (place.gpu >= 0 || overlaps(range, m->hosts))) /* the driver's own */
		return INVALID_VALUE;
	if (overlaps(range, m->registered))
		return HOST_MEMORY_ALREADY_REGISTERED;
	ADD(m->registered, .range = range, .context = context, .flags = flags);
	return SUCCESS;
}

/* What the driver has allocated itself cannot be unregistered, and is another error than memory that was never
 * registered. */
EXPORT CUresult cuMemHostUnregister(void *memory) {
	CALLED(cuMemHostUnregister);
	uint64_t addr = (uint64_t)(uintptr_t)memory;
	IN_CONTEXT;
	NEED(memory);
	wait_idle(context); /* no copy uses it any more */
	struct allocation **link = &m->registered;
	FIND(link, (*link)->range.addr == addr);
	if (*link == NULL)
		return within_host(addr, 1) ? INVALID_VALUE : HOST_MEMORY_NOT_REGISTERED;
	drop(link);
	return SUCCESS;
}

/* There is one address space. */
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *memory, unsigned flags) {
	CALLED(cuMemHostGetDevicePointer);
	uint64_t addr = (uint64_t)(uintptr_t)memory;
	IN_CONTEXT;
	if (out == NULL || flags != 0 || !within_host(addr, 1))
		return INVALID_VALUE;
	*out = addr;
	return SUCCESS;
}

EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *memory) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	CALLED(cuMemHostGetFlags);
	uint64_t addr = (uint64_t)(uintptr_t)memory;
	IN_CONTEXT;
	struct allocation **link = &m->hosts;
	FIND(link, inside(addr, 1, (*link)->range));
	if (*link == NULL) {
		link = &m->registered;
		FIND(link, inside(addr, 1, (*link)->range));
	}
	NEED(*link);
	*flags = ((*link)->flags & ~(unsigned)CU_MEMHOSTREGISTER_READ_ONLY) |
	         CU_MEMHOSTREGISTER_DEVICEMAP; /* there is one address space */
	return SUCCESS;
}

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t bytes) {
	CALLED(cuMemAllocHost);
	return out == NULL ? INVALID_VALUE : cuMemHostAlloc(out, bytes, 0);
}
