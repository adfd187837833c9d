/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated libnvidia-ml.so.1. Its cards are those of GPUCONF_SIMULATE, or, in a test build, of the file that
 * FAKE_NVML names (tests_go/machine/fakenvml/libnvidia-ml). nvmlInit reads either. It says nothing of quantities that
 * only a card can measure: they are not supported.
 *
 * With GPUCONF_SIMULATOR_LOG each function that is called, and not implemented, is named once on standard error.
 *
 * Compiled with FAKE_NVML_OLD it is the library of an old driver: only first versions of functions, no MIG, no
 * multi-process service.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "nvml.h"

#include "../../machine/models/noted.h"
#include "../../machine/models/spec.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct machine machine;

/* As in NVML, any thread may start and stop it at any time; between its own start and stop the machine does not change.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users; /* guarded by lock */

static void before_fork(void) {
	pthread_mutex_lock(&lock);
	lock_shared_cards();
}

static void after_fork(void) {
	unlock_shared_cards();
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void prepare(void) { pthread_atfork(before_fork, after_fork, after_fork); }

/* The checks of every call: 0 to continue. */
static int refusal(const char *function, const struct device *device) {
	static const char *const restricted[] = {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2",
	    "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v3",
	    "nvmlDeviceGetUtilizationRates"};
	if (users == 0)
		return UNINITIALIZED;
	for (size_t i = 0; device != NULL && device->restricted && i < sizeof restricted / sizeof *restricted; i++)
		if (strcmp(function, restricted[i]) == 0)
			return NO_PERMISSION;
	return hooks_of_call(function, device);
}

int begin(const char *function, const struct device *device) {
	hooks_note(function);
	HOLD(lock);
	return refusal(function, device);
}

int is_device(const struct device *device) {
	size_t offset = (size_t)((const char *)device - (const char *)machine.device);
	return offset < (size_t)machine.devices * sizeof *device && offset % sizeof *device == 0;
}

/* NVML refuses a buffer that is too small, and cuts nothing. */
static int copy(char *out, unsigned size, const char *text) {
	if (strlen(text) + 1 > size)
		return INSUFFICIENT_SIZE;
	strcpy(out, text);
	return SUCCESS;
}

/* The lock is held, and no user has NVML started, so no other thread reads the machine. */
static int read_machine(void) {
	char complaint[GPUCONF_COMPLAINT] = "";

	memset(&machine, 0, sizeof machine);
	if (hooks_describe())
		return SUCCESS;
	machine.simulated = 1;
	if (!simulate(secure_getenv("GPUCONF_SIMULATE"), complaint, sizeof complaint))
		fprintf(stderr, "gpuconf's simulated NVML: GPUCONF_SIMULATE: %s\n", complaint);
	else if (machine.devices == 0 || open_shared_cards(complaint, sizeof complaint))
		return SUCCESS;
	else
		fprintf(stderr, "gpuconf's simulated NVML: %s\n", complaint);
	return DRIVER_NOT_LOADED;
}

/* Each start needs a stop. Only the first one reads the machine, and a start that fails counts for nothing. */
static int start(const char *function) {
	hooks_note(function);
	HOLD(lock);
	int refused = users == 0 ? read_machine() : SUCCESS;
	users++;
	if (!refused)
		refused = refusal(function, NULL);
	if (refused)
		users--;
	return refused;
}

/* For the stubs. It is noted once for each name, with GPUCONF_SIMULATOR_LOG. */
int unsupported(const char *function) {
	int refused = begin(function, NULL);
	if (refused)
		return refused;
	note_once(function, "gpuconf: the simulated NVML does not support %s\n");
	return NOT_SUPPORTED;
}

#pragma GCC visibility push(default)

const char *nvmlErrorString(int result) {
	static const char *const texts[] = {"Success", "Uninitialized", "Invalid Argument", "Not Supported",
	    "Insufficient Permissions", "Already Initialized", "Not Found", "Insufficient Size",
	    "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
	    "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
	    "GPU access blocked by the operating system", "Driver/library version mismatch", "In use by another client",
	    "Insufficient Memory", "No data", "vGPU ECC not supported", "Insufficient Resources", "Invalid Frequency",
	    "Argument version mismatch", "Requested functionality has been deprecated", "System is not in ready state",
	    "No supported GPUs were found", "Resource not in correct state to perform requested operation",
	    "Reset type is not supported for given device"};
	return result >= 0 && result < (int)(sizeof texts / sizeof *texts) ? texts[result] : "Unknown Error";
}

int nvmlInit(void) { return start(__func__); }

int nvmlShutdown(void) {
	hooks_note(__func__);
	HOLD(lock);
	int refused = refusal(__func__, NULL);
	if (users > 0)
		users--; /* even if it fails, so that the next machine is read */
	return refused;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
	BEGIN_SYSTEM(NULL, version);
	return copy(version, size, machine.driver);
}

int nvmlSystemGetCudaDriverVersion(int *version) {
	BEGIN_SYSTEM(NULL, version);
	*version = machine.cuda;
	return SUCCESS;
}

/* Cards only, in the order of NVML's indices; instances are between them in the list. */
static int by_index(unsigned index, struct device **found) {
	for (int i = 0; i < machine.devices; i++)
		if (machine.device[i].parent < 0 && index-- == 0) {
			*found = &machine.device[i];
			return SUCCESS;
		}
	return INVALID_ARGUMENT;
}

/* Each is exported under two names, as NVML's versions are. */
#define COUNT(function) \
	int function(unsigned *cards) { \
		BEGIN_SYSTEM(NULL, cards); \
		*cards = 0; \
		for (int i = 0; i < machine.devices; i++) \
			*cards += machine.device[i].parent < 0; \
		return SUCCESS; \
	}
#define BY_INDEX(function) \
	int function(unsigned index, struct device **found) { \
		struct device *device = NULL; \
		by_index(index, &device); \
		BEGIN_SYSTEM(device, found); \
		return by_index(index, found); \
	}
COUNT(nvmlDeviceGetCount)
BY_INDEX(nvmlDeviceGetHandleByIndex)

/* A card's with or without the "GPU-" before it. */
int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **found) {
	BEGIN_SYSTEM(NULL, (uuid && found) ? uuid : NULL);
	for (int i = 0; i < machine.devices; i++)
		if (strcmp(machine.device[i].uuid, uuid) == 0 ||
		    (machine.device[i].parent < 0 && strcmp(machine.device[i].uuid + 4, uuid) == 0)) {
			*found = &machine.device[i];
			return SUCCESS;
		}
	return NOT_FOUND;
}

int nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned size) {
	BEGIN(device, uuid);
	return copy(uuid, size, device->uuid);
}

int nvmlDeviceGetName(struct device *device, char *name, unsigned size) {
	BEGIN(device, name);
	return copy(name, size, device->name);
}

int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor) {
	BEGIN(device, (major && minor) ? major : NULL);
	*major = device->major;
	*minor = device->minor;
	return SUCCESS;
}

struct memory {
	unsigned long long total, free, used;
};

/* What a description says, and what the job's processes have. */
static unsigned long long used(const struct device *device) {
	unsigned long long all = device->used + (machine.simulated ? used_here(device->uuid) : hooks_used(device));
	return all < device->total ? all : device->total; /* under WSL a card lends more than it has */
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *memory) {
	BEGIN(device, memory);
	if (device->shares_host)
		return NOT_SUPPORTED;
	memory->total = device->total + device->reserved;
	memory->used = used(device) + device->reserved; /* this form does not know what is reserved */
	memory->free = memory->total - memory->used;
	return SUCCESS;
}

struct pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem;
#ifndef FAKE_NVML_OLD
	char bus_id[32];
#endif
};

static int pci(const struct device *device, struct pci *out) {
	memset(out, 0, sizeof *out);
	out->domain = device->domain;
	out->bus = device->bus;
	out->device = device->slot;
	snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:%02X.0", device->domain & 0xffff,
	    device->bus & 0xff, device->slot & 0xff);
#ifndef FAKE_NVML_OLD
	snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", device->domain, device->bus, device->slot);
#endif
	return SUCCESS;
}

#define PCI_INFO(function) \
	int function(struct device *device, struct pci *out) { \
		BEGIN(device, out); \
		return pci(device, out); \
	}

struct info_v1 {
	unsigned pid;
	unsigned long long bytes;
};

/* Fills infos of `size` bytes each; entries that do not fit are counted too. */
static int processes(const struct device *device, const char *list, unsigned *room, char *infos, size_t size) {
	if (*room > 0 && infos == NULL)
		return INVALID_ARGUMENT;
	struct info all[MAX_SLOTS];
	unsigned found = hooks_processes(device, list, all);
	struct budget_process here[MAX_SLOTS];
	int count = machine.simulated && strcmp(list, device->mps ? "mps" : "compute") == 0
	                ? processes_here(device->uuid, here, MAX_SLOTS)
	                : 0;
	for (int i = 0; i < count; i++)
		all[found++] = (struct info){here[i].pid, device->hides_use ? ~0ull : here[i].used + here[i].pools, ~0u, ~0u};
	for (unsigned i = 0; i < found && i < *room; i++)
		memcpy(infos + i * size, &all[i], size);
	int fits = found <= *room;
	*room = found;
	return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

/* Defines a function that lists the processes of a kind. The versions differ in what they store. */
#define PROCESSES(function, kind, type) \
	int function(struct device *device, unsigned *room, type *infos) { \
		BEGIN(device, room); \
		return processes(device, kind, room, (char *)infos, sizeof *infos); \
	}
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute", struct info_v1)

#ifdef FAKE_NVML_OLD

PCI_INFO(nvmlDeviceGetPciInfo)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", struct info_v1)

#else

int nvmlInit_v2(void) { return start(__func__); }

struct memory_v2 {
	unsigned version; /* size and 2 << 24 */
	unsigned long long total, reserved, free, used;
};

enum { RESERVED = 1 << 20 };

/* What the driver reserves for itself is not part of what is used. */
int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *memory) {
	BEGIN(device, memory);
	if (memory->version != (sizeof *memory | 2 << 24))
		return FUNCTION_NOT_FOUND; /* of that version */
	if (device->shares_host)
		return NOT_SUPPORTED;
	memory->total = device->total + device->reserved;
	memory->reserved = device->reserved > 0 ? device->reserved : RESERVED;
	memory->used = used(device);
	if (memory->used > memory->total - memory->reserved)
		memory->used = memory->total - memory->reserved;
	memory->free = memory->total - memory->used - memory->reserved;
	return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **found) {
	unsigned domain, bus, slot;

	BEGIN_SYSTEM(NULL, (bus_id && found) ? bus_id : NULL);
	if (sscanf(bus_id, "%x:%x:%x.0", &domain, &bus, &slot) != 3) {
		domain = 0;
		if (sscanf(bus_id, "%x:%x.0", &bus, &slot) != 2)
			return INVALID_ARGUMENT;
	}
	for (int i = 0; i < machine.devices; i++) {
		struct device *card = &machine.device[i];
		if (card->parent < 0 && card->domain == domain && card->bus == bus && card->slot == slot) {
			*found = card;
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

int nvmlDeviceGetBAR1MemoryInfo(struct device *device, struct memory *memory) {
	BEGIN(device, memory);
	if (machine.simulated)
		return NOT_SUPPORTED;
	*memory = (struct memory){256 << 20, 255 << 20, 1 << 20};
	return SUCCESS;
}

COUNT(nvmlDeviceGetCount_v2)
BY_INDEX(nvmlDeviceGetHandleByIndex_v2)
PCI_INFO(nvmlDeviceGetPciInfo_v3)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute", struct info)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", struct info)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", struct info)

struct addressing {
	unsigned version, value;
};

int nvmlDeviceGetAddressingMode(struct device *device, struct addressing *mode) {
	BEGIN(device, mode);
	if (machine.simulated && mode->version != (sizeof *mode | 1 << 24))
		return VERSION_MISMATCH;
	mode->value = device->addressing;
	return SUCCESS;
}

/* nvmlGpuFabricInfo_v2_t, and with the summary nvmlGpuFabricInfo_v3_t. */
struct fabric {
	unsigned version;
	unsigned char cluster[16];
	unsigned status, clique, state, health, summary;
};

/* A fabric connects cards from Hopper on. No simulated one is in it: the state is NVML_GPU_FABRIC_STATE_NOT_SUPPORTED,
 * which is 0 as all else is. */
int nvmlDeviceGetGpuFabricInfoV(struct device *device, struct fabric *fabric) {
	BEGIN(device, fabric);
	size_t size = fabric->version == (3u << 24 | sizeof *fabric) ? sizeof *fabric : offsetof(struct fabric, summary);
	if (device->major < 9)
		return NOT_SUPPORTED;
	if (size != sizeof *fabric && fabric->version != (2u << 24 | size))
		return VERSION_MISMATCH;
	memset(fabric->cluster, 0, size - sizeof fabric->version);
	return SUCCESS;
}

/* No change is pending: the mode is that of the specification. */
int nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending) {
	BEGIN(device, (current && pending) ? current : NULL);
	if (device->mig == MIG_NONE)
		return NOT_SUPPORTED;
	*current = *pending = device->mig == MIG_ON;
	return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *places) {
	BEGIN(device, places);
	*places = device->mig == MIG_NONE ? 0 : MAX_INSTANCES;
	return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *card, unsigned place, struct device **found) {
	BEGIN(card, found);
	for (int i = 0; i < machine.devices; i++) {
		struct device *device = &machine.device[i];
		if (device->parent == card - machine.device && device->place == (int)place) {
			*found = device;
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

#define OF_INSTANCE(function, field) \
	int function(struct device *device, unsigned *id) { \
		BEGIN(device, id); \
		if (device->parent < 0) \
			return machine.simulated ? INVALID_ARGUMENT : NOT_SUPPORTED; \
		*id = (unsigned)device->field; \
		return SUCCESS; \
	}
OF_INSTANCE(nvmlDeviceGetGpuInstanceId, gi)
OF_INSTANCE(nvmlDeviceGetComputeInstanceId, ci)

int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

int nvmlInitWithFlags(unsigned flags) {
	(void)flags;
	return start(__func__);
}

int nvmlSystemGetNVMLVersion(char *version, unsigned size) {
	BEGIN_SYSTEM(NULL, version);
	SIMULATED();
	char text[100];
	snprintf(text, sizeof text, "%d.%s", machine.cuda / 1000, machine.driver);
	return copy(version, size, text);
}

int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size) {
	char link[40], target[4096];

	BEGIN_SYSTEM(NULL, name);
	SIMULATED();
	if (size == 0)
		return INVALID_ARGUMENT;
	snprintf(link, sizeof link, "/proc/%u/exe", pid);
	ssize_t length = readlink(link, target, sizeof target);
	if (length < 0)
		return access(link, F_OK) == 0 ? NO_PERMISSION : NOT_FOUND;
	snprintf(name, size, "%.*s", (int)length, target);
	return SUCCESS;
}

int nvmlUnitGetCount(unsigned *units) {
	BEGIN_SYSTEM(NULL, units);
	SIMULATED();
	*units = 0;
	return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId(const char *bus_id, struct device **found) {
	return nvmlDeviceGetHandleByPciBusId_v2(bus_id, found);
}

/* The second versions are the third ones, under whose names they are counted and refused. */
#define SAME_PROCESSES(function, other) \
	int function(struct device *device, unsigned *room, struct info *infos) { return other(device, room, infos); }
SAME_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3)
SAME_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3)
SAME_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", struct info_v1)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, "mps", struct info_v1)

/* Defines a function that stores one number of a card. An expression may return an error instead. */
#define NUMBER(function, type, expression) \
	int function(struct device *device, type *out) { \
		BEGIN_SIMULATED(device, out); \
		type value = (type)(expression); \
		if (value == (type) - 1) \
			return NOT_SUPPORTED; \
		*out = value; \
		return SUCCESS; \
	}

static int architecture(const struct device *device) {
	enum { KEPLER = 2, MAXWELL, PASCAL, VOLTA, TURING, AMPERE, ADA, HOPPER, BLACKWELL }; /* nvmlDeviceArchitecture_t */
	static const int by_major[] = {[3] = KEPLER, [5] = MAXWELL, [6] = PASCAL, [7] = VOLTA, [8] = AMPERE, [9] = HOPPER};
	if (device->major >= 10)
		return BLACKWELL;
	if (device->major == 7 && device->minor == 5)
		return TURING;
	if (device->major == 8 && device->minor == 9)
		return ADA;
	return by_major[device->major] > 0 ? by_major[device->major] : -1;
}

/* Where a product's name does not say it, it is NVML_BRAND_NVIDIA. */
static int brand(const struct device *device) {
	enum { TESLA = 2, GEFORCE = 5, NVIDIA = 14 }; /* nvmlBrandType_t */
	if (strncmp(device->name, "Tesla", 5) == 0)
		return TESLA;
	return strstr(device->name, "GeForce") != NULL ? GEFORCE : NVIDIA;
}

NUMBER(nvmlDeviceGetIndex, unsigned, device - machine.device)
NUMBER(nvmlDeviceGetMinorNumber, unsigned, device - machine.device)
NUMBER(nvmlDeviceGetArchitecture, unsigned, architecture(device))
NUMBER(nvmlDeviceGetBrand, unsigned, brand(device))
NUMBER(nvmlDeviceGetNumGpuCores, unsigned, device->multiprocessors * device->lanes)
NUMBER(nvmlDeviceGetComputeMode, unsigned, 0)
NUMBER(nvmlDeviceGetDisplayActive, unsigned, 0)
NUMBER(nvmlDeviceGetMultiGpuBoard, unsigned, strstr(device->name, "K80") != NULL)
NUMBER(nvmlDeviceGetPersistenceMode, unsigned, 1)
NUMBER(nvmlDeviceGetPerformanceState, unsigned, 0)
NUMBER(nvmlDeviceIsMigDeviceHandle, unsigned, device->parent >= 0)
NUMBER(nvmlDeviceGetMemoryBusWidth, unsigned, device->bus_bits > 0 ? device->bus_bits : -1)

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *instance, struct device **card) {
	BEGIN_SIMULATED(instance, card);
	if (instance->parent < 0)
		return INVALID_ARGUMENT;
	*card = &machine.device[instance->parent];
	return SUCCESS;
}

struct field {
	unsigned id, scope;
	long long when, latency;
	unsigned type, result;
	unsigned long long value;
};

/* Each field has a result of its own, which nvidia-smi reads whatever the function returns; no field is known. */
int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields) {
	enum { UNSIGNED_LONG_LONG = 3 };

	BEGIN_SIMULATED(device, fields);
	if (count <= 0)
		return INVALID_ARGUMENT;
	for (int i = 0; i < count; i++)
		fields[i].type = UNSIGNED_LONG_LONG, fields[i].result = NOT_SUPPORTED;
	return SUCCESS;
}

struct pci_classes {
	unsigned version, domain, bus, device, device_id, subsystem, base, sub;
	char bus_id[32];
};

/* A card that is made for a screen is a VGA controller, another one a 3D controller. */
int nvmlDeviceGetPciInfoExt(struct device *device, struct pci_classes *out) {
	enum { DISPLAY = 3, VGA = 0, THREE_D = 2 };
	struct pci known;

	BEGIN_SIMULATED(device, out);
	if (out->version != (sizeof *out | 1 << 24))
		return VERSION_MISMATCH;
	pci(device, &known);
	out->domain = known.domain, out->bus = known.bus, out->device = known.device;
	out->device_id = known.device_id, out->subsystem = known.subsystem;
	out->base = DISPLAY, out->sub = strstr(device->name, "RTX") != NULL ? VGA : THREE_D;
	memcpy(out->bus_id, known.bus_id, sizeof out->bus_id);
	return SUCCESS;
}

/* Each card is at a host bridge of its own, in one NUMA node. */
int nvmlDeviceGetTopologyCommonAncestor(struct device *one, struct device *other, unsigned *level) {
	enum { NODE = 40 };

	BEGIN_SIMULATED(one, level);
	if (!is_device(other))
		return INVALID_ARGUMENT;
	if (one == other)
		return NOT_SUPPORTED;
	*level = NODE;
	return SUCCESS;
}

/* As the driver says it (peers.c there). NVML on a simulated card knows no NVLinks. Two GeForce RTX 5090 are
 * GPU_UNSUPPORTED to nvidia-smi. */
int nvmlDeviceGetP2PStatus(struct device *one, struct device *other, unsigned capability, unsigned *status) {
	enum {
		READ,
		WRITE,
		NVLINK,
		ATOMICS,
		PCI,
		NVLINK_BITS = 4096
	}; /* capabilities; and a bus that wide is of cards with native atomics */
	enum { OK, GPU_UNSUPPORTED = 2, UNSUPPORTED = 5 };

	BEGIN_SIMULATED(one, status);
	if (!is_device(other))
		return INVALID_ARGUMENT;
	int peers = one != other && one->model == other->model && !one->alone && !other->alone;
	if (capability == NVLINK || (capability == ATOMICS && one->bus_bits < NVLINK_BITS))
		*status = UNSUPPORTED;
	else if (capability > PCI || peers)
		*status = OK; /* an H200 with driver 580 says so of what it does not know */
	else
		*status = one != other && (one->alone || other->alone) ? GPU_UNSUPPORTED : UNSUPPORTED;
	return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(struct device *device, unsigned *rates) {
	BEGIN_SIMULATED(device, rates);
	rates[0] = rates[1] = 0; /* it executes nothing */
	return SUCCESS;
}

/* Of the video clock nothing is known. */
int nvmlDeviceGetMaxClockInfo(struct device *device, unsigned clock, unsigned *mhz) {
	enum { GRAPHICS, MULTIPROCESSOR, MEMORY, CLOCKS = 4 };

	BEGIN_SIMULATED(device, mhz);
	if (clock >= CLOCKS)
		return INVALID_ARGUMENT;
	int known = clock == MEMORY ? device->memory_clock : 0;
	if (clock == GRAPHICS || clock == MULTIPROCESSOR)
		known = device->clock;
	if (known == 0)
		return NOT_SUPPORTED;
	*mhz = (unsigned)known;
	return SUCCESS;
}

/*
 * Sets of events. Nothing happens to a simulated card, so who waits waits until the time is over. Answers as recorded
 * on an H200 with driver 580 (tests_py/driver/calls/facts.py).
 */

enum { SUPPORTED_TYPES = 0xff9f, MOST_SETS = 256, LOOK_MS = 50 };

/* A handle is the address of one of these, so that a wrong one is noticed. */
static char sets[MOST_SETS];

static int is_set(const char *set) {
	return set >= sets && set < sets + MOST_SETS && __atomic_load_n(set, __ATOMIC_ACQUIRE);
}

int nvmlEventSetCreate(char **set) {
	BEGIN_SYSTEM(NULL, set);
	SIMULATED();
	for (char *free_set = sets; free_set < sets + MOST_SETS; free_set++)
		if (!__atomic_exchange_n(free_set, 1, __ATOMIC_ACQ_REL)) {
			*set = free_set;
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
	BEGIN_SIMULATED(device, types);
	*types = SUPPORTED_TYPES;
	return SUCCESS;
}

int nvmlDeviceRegisterEvents(struct device *device, unsigned long long types, char *set) {
	BEGIN_SIMULATED(device, set);
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
