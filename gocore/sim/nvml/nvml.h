/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the simulated NVML share: the machine, and who fills it. */
#ifndef NVML_H
#define NVML_H

#include <stddef.h>
#include <stdint.h>

#include "../../lease/budget/budget.h"

#define MAX_DEVICES 64
#define DEFAULT_CUDA 12040 /* what a simulated machine says of its driver */
#define MAX_INSTANCES 7

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NO_PERMISSION = 4,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
	TIMEOUT = 10,
	FUNCTION_NOT_FOUND = 13,
	INSUFFICIENT_RESOURCES = 23,
	VERSION_MISMATCH = 25,
};

enum mig { MIG_NONE, MIG_OFF, MIG_ON };

/* A card, or an instance of the card at index parent. */
struct device {
	char uuid[80], name[96];
	int parent; /* -1: a card */
	int place;  /* of an instance on its card */
	int gi, ci;
	unsigned domain, bus, slot;
	int major, minor;
	enum mig mig;
	int places;                                                /* of a card: including holes */
	unsigned long long total, used, reserved;                  /* reserved: beyond the total */
	unsigned addressing;                                       /* 0 none, 1 HMM, 2 ATS */
	int multiprocessors, lanes, clock, memory_clock, bus_bits; /* MHz; 0: unknown */
	int restricted;  /* its memory, processes and use are hidden: a MIG instance's card, in a container */
	int shares_host; /* its memory is the host's, and NVML knows no size */
	int mps;         /* programs are clients of the multi-process service */
	int hides_use;   /* how much a process uses is unknown: WSL */
	const struct gpuconf_model *model; /* NULL: described by FAKE_NVML */
	int alone;                         /* no other card has access to its memory */
};

/* A process of a list, since the lists' version 2. */
struct info {
	unsigned pid;
	unsigned long long bytes;
	unsigned gi, ci;
};

extern struct machine {
	char driver[80];
	int cuda;
	int simulated; /* by GPUCONF_SIMULATE, not described by FAKE_NVML */
	int devices;
	struct device device[MAX_DEVICES];
} machine;

/* tests_go/machine/fakenvml/libnvidia-ml/hooks.c, for tests. They hold nvml.c's lock, but for hooks_note. */
#ifdef GPUCONF_TEST_HOOKS
int hooks_describe(void); /* reads FAKE_NVML's file; returns 0 without one */
int hooks_of_call(const char *function, const struct device *device); /* its injected failure, if any */
void hooks_note(const char *function);
/* What it describes of a card's use, and at most MAX_SLOTS processes of a list. */
unsigned long long hooks_used(const struct device *device);
unsigned hooks_processes(const struct device *device, const char *list, struct info *out);
#else
static inline int hooks_describe(void) { return 0; }
static inline int hooks_of_call(const char *function, const struct device *device) {
	(void)function, (void)device;
	return SUCCESS;
}
static inline void hooks_note(const char *function) { (void)function; }
#define hooks_used(device) 0
#define hooks_processes(device, list, out) 0
#endif

/* cards.c: the cards and the driver of a specification. Returns 0 and a sentence if it is wrong. */
int simulate(const char *spec, char *complaint, unsigned room);

/* cards.c: the bytes that this process's simulated CUDA driver has given out of a card. */
uint64_t used_here(const char *uuid);
int processes_here(const char *uuid, struct budget_process *out, int room);
int open_shared_cards(char *complaint, unsigned room);
void lock_shared_cards(void); /* for a fork: a child has no other thread that could unlock them */
void unlock_shared_cards(void);

/* nvml.c: the checks that every call begins with: 0 to continue. */
int begin(const char *function, const struct device *device);
int is_device(const struct device *device);

#define BEGIN_SYSTEM(device, out) \
	do { \
		int refused = begin(__func__, device); \
		if (refused) \
			return refused; \
		if ((out) == NULL) \
			return INVALID_ARGUMENT; \
	} while (0)

#define BEGIN(device, out) \
	do { \
		int refused = begin(__func__, is_device(device) ? (device) : NULL); \
		if (refused) \
			return refused; \
		if (!is_device(device) || (out) == NULL) \
			return INVALID_ARGUMENT; \
	} while (0)

/* A new function is what users of a simulated machine see. A described machine has the functions that its tests know.
 */
#define SIMULATED() \
	do { \
		if (!machine.simulated) \
			return NOT_SUPPORTED; \
	} while (0)

#define BEGIN_SIMULATED(device, out) \
	BEGIN(device, out); \
	SIMULATED()

/* nvml.c: the answer of a function without an implementation. */
int unsupported(const char *function);

#endif
