//go:build ignore

/*
 * A libnvidia-ml.so.1 for tests: the functions of NVML that list GPUs, over a machine that a text file describes.
 *
 * FAKE_NVML names the file, which nvmlInit reads each time. FAKE_NVML_LOG, if set, names a file to which each call's name is
 * written.
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
 * "addressing" sets the addressing mode of the card above it: "none", "hmm" or "ats". With "live" its use grows by what the driver
 * has given out, as the calling thread's context sees it. A card's mig is "none", "off" or "on", and it has room for MAX_INSTANCES instances. A line "hole" among them stands for a place
 * without an instance. A process belongs to the card above it; "bytes=-1" is memory that the driver does not know; its list is
 * "compute", "mps" or "graphics". A call fails with the given number, for one UUID or for all.
 *
 * Compiled with FAKE_NVML_OLD it is the library of an old driver: only first versions of functions, no MIG, no multi-process
 * service.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 64
#define MAX_INSTANCES 7
#define MAX_PROCESSES 256
#define MAX_FAILURES 64

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
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
	int places; /* of a card: including holes */
	unsigned long long total, used;
	unsigned addressing; /* 0 none, 1 HMM, 2 ATS */
	int live;
};

struct process {
	int card;
	unsigned pid;
	unsigned long long bytes;
	char list[16];
	unsigned gi, ci;
};

struct failure {
	char function[64], uuid[80];
	int result;
};

static struct machine {
	char driver[80];
	int cuda;
	int devices, processes, failures;
	struct device device[MAX_DEVICES];
	struct process process[MAX_PROCESSES];
	struct failure failure[MAX_FAILURES];
} machine;

/* As in NVML, any thread may start and stop it at any time; between its own start and stop the machine does not change. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users; /* guarded by lock */

static void misread(const char *line)
{
	fprintf(stderr, "fake NVML: can't read the line: %s", line);
	abort();
}

static void read_card(const char *line)
{
	struct device *card = &machine.device[machine.devices++];
	char mig[8];
	if (sscanf(line, "card %79s domain=%u bus=%u device=%u cc=%d.%d mig=%7s total=%llu used=%llu %95[^\n]", card->uuid,
		   &card->domain, &card->bus, &card->slot, &card->major, &card->minor, mig, &card->total, &card->used,
		   card->name) != 10)
		misread(line);
	card->parent = -1;
	card->mig = strcmp(mig, "on") == 0 ? MIG_ON : strcmp(mig, "off") == 0 ? MIG_OFF : MIG_NONE;
}

static int last_card(void)
{
	int last = machine.devices - 1;
	return machine.device[last].parent < 0 ? last : machine.device[last].parent;
}

static void read_instance(const char *line)
{
	int parent = last_card();
	struct device *instance = &machine.device[machine.devices++];
	if (sscanf(line, "instance %79s gi=%d ci=%d total=%llu used=%llu %95[^\n]", instance->uuid, &instance->gi, &instance->ci,
		   &instance->total, &instance->used, instance->name) != 6)
		misread(line);
	instance->parent = parent;
	instance->place = machine.device[parent].places++;
}

static void read_process(const char *line)
{
	struct process *process = &machine.process[machine.processes++];
	long long bytes;
	int gi, ci;
	if (sscanf(line, "process %u bytes=%lld list=%15s gi=%d ci=%d", &process->pid, &bytes, process->list, &gi, &ci) != 5)
		misread(line);
	process->card = last_card();
	process->bytes = (unsigned long long)bytes;
	process->gi = (unsigned)gi;
	process->ci = (unsigned)ci;
}

static void read_addressing(const char *line)
{
	static const char *const modes[] = {"none", "hmm", "ats"};
	char mode[8] = "";
	if (sscanf(line, "addressing %7s", mode) != 1)
		misread(line);
	for (unsigned i = 0; i < 3; i++)
		if (strcmp(mode, modes[i]) == 0)
			machine.device[last_card()].addressing = i;
}

static void read_machine(void)
{
	memset(&machine, 0, sizeof machine);
	const char *path = getenv("FAKE_NVML");
	FILE *file = path == NULL ? NULL : fopen(path, "r");
	char line[512];
	while (file != NULL && fgets(line, sizeof line, file) != NULL) {
		struct failure *failure = &machine.failure[machine.failures];
		if (strncmp(line, "card ", 5) == 0)
			read_card(line);
		else if (strncmp(line, "instance ", 9) == 0)
			read_instance(line);
		else if (strncmp(line, "hole", 4) == 0)
			machine.device[last_card()].places++;
		else if (strncmp(line, "live", 4) == 0)
			machine.device[last_card()].live = 1;
		else if (strncmp(line, "addressing ", 11) == 0)
			read_addressing(line);
		else if (strncmp(line, "process ", 8) == 0)
			read_process(line);
		else if (sscanf(line, "fail %63s %d %79s", failure->function, &failure->result, failure->uuid) >= 2)
			machine.failures++;
		else if (sscanf(line, "driver %79s", machine.driver) != 1 && sscanf(line, "cuda %d", &machine.cuda) != 1)
			misread(line);
	}
	if (file != NULL)
		fclose(file);
}

static void note(const char *function)
{
	const char *path = getenv("FAKE_NVML_LOG");
	FILE *file = path == NULL ? NULL : fopen(path, "a");
	if (file == NULL)
		return;
	fprintf(file, "%s\n", function);
	fclose(file);
}

/* The checks of every call: 0 to continue. */
static int refusal(const char *function, const struct device *device)
{
	if (users == 0)
		return UNINITIALIZED;
	for (int i = 0; i < machine.failures; i++) {
		struct failure *failure = &machine.failure[i];
		if (strcmp(failure->function, function) == 0 &&
		    (failure->uuid[0] == '\0' || (device != NULL && strcmp(failure->uuid, device->uuid) == 0)))
			return failure->result;
	}
	return SUCCESS;
}

static int begin(const char *function, const struct device *device)
{
	note(function);
	pthread_mutex_lock(&lock);
	int refused = refusal(function, device);
	pthread_mutex_unlock(&lock);
	return refused;
}

#define BEGIN(device) \
	do { \
		int refused = begin(__func__, device); \
		if (refused) \
			return refused; \
	} while (0)

static int copy(char *out, unsigned size, const char *text)
{
	if (strlen(text) + 1 > size)
		return INSUFFICIENT_SIZE;
	strcpy(out, text);
	return SUCCESS;
}

static int start(const char *function)
{
	note(function);
	pthread_mutex_lock(&lock);
	if (users == 0)
		read_machine();
	users++;
	int refused = refusal(function, NULL);
	if (refused)
		users--;
	pthread_mutex_unlock(&lock);
	return refused;
}

const char *nvmlErrorString(int result)
{
	static __thread char text[40];
	snprintf(text, sizeof text, "the fake's error %d", result);
	return text;
}

int nvmlInit(void) { return start(__func__); }

int nvmlShutdown(void)
{
	note(__func__);
	pthread_mutex_lock(&lock);
	int refused = refusal(__func__, NULL);
	if (users > 0)
		users--; /* even if it fails, so that the next machine is read */
	pthread_mutex_unlock(&lock);
	return refused;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
	BEGIN(NULL);
	return copy(version, size, machine.driver);
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
	BEGIN(NULL);
	*version = machine.cuda;
	return SUCCESS;
}

static int count(unsigned *cards)
{
	*cards = 0;
	for (int i = 0; i < machine.devices; i++)
		*cards += machine.device[i].parent < 0;
	return SUCCESS;
}

static int by_index(unsigned index, struct device **found)
{
	for (int i = 0; i < machine.devices; i++)
		if (machine.device[i].parent < 0 && index-- == 0) {
			*found = &machine.device[i];
			return SUCCESS;
		}
	return INVALID_ARGUMENT;
}

int nvmlDeviceGetCount(unsigned *cards)
{
	BEGIN(NULL);
	return count(cards);
}

int nvmlDeviceGetHandleByIndex(unsigned index, struct device **found)
{
	struct device *device = NULL;
	by_index(index, &device);
	BEGIN(device);
	return by_index(index, found);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **found)
{
	BEGIN(NULL);
	if (strncmp(uuid, "GPU-", 4) != 0 && strncmp(uuid, "MIG-", 4) != 0)
		return INVALID_ARGUMENT;
	for (int i = 0; i < machine.devices; i++)
		if (strcmp(machine.device[i].uuid, uuid) == 0) {
			*found = &machine.device[i];
			return SUCCESS;
		}
	return NOT_FOUND;
}

int nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned size)
{
	BEGIN(device);
	return copy(uuid, size, device->uuid);
}

int nvmlDeviceGetName(struct device *device, char *name, unsigned size)
{
	BEGIN(device);
	return copy(name, size, device->name);
}

int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor)
{
	BEGIN(device);
	*major = device->major;
	*minor = device->minor;
	return SUCCESS;
}

struct memory {
	unsigned long long total, free, used;
};

static unsigned long long used(const struct device *device)
{
	void *driver = device->live ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
	int (*info)(size_t *, size_t *) = driver == NULL ? NULL : (int (*)(size_t *, size_t *))dlsym(driver, "cuMemGetInfo_v2");
	size_t available = 0, total = 0;
	if (info != NULL && info(&available, &total) != 0)
		available = total = 0;
	return device->used + total - available;
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *memory)
{
	BEGIN(device);
	memory->total = device->total;
	memory->used = used(device);
	memory->free = device->total - memory->used;
	return SUCCESS;
}

struct pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem;
#ifndef FAKE_NVML_OLD
	char bus_id[32];
#endif
};

static int pci(const struct device *device, struct pci *out)
{
	memset(out, 0, sizeof *out);
	out->domain = device->domain;
	out->bus = device->bus;
	out->device = device->slot;
#ifndef FAKE_NVML_OLD
	snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", device->domain, device->bus, device->slot);
#endif
	return SUCCESS;
}

struct info_v1 {
	unsigned pid;
	unsigned long long bytes;
};

struct info {
	unsigned pid;
	unsigned long long bytes;
	unsigned gi, ci;
};

static int runs_on(const struct process *process, const struct device *device)
{
	int on_card = process->card == device - machine.device;
	int on_instance = device->parent == process->card && device->gi == (int)process->gi && device->ci == (int)process->ci;
	return device->parent < 0 ? on_card : on_instance;
}

/* Fills infos of `size` bytes each; entries that do not fit are counted too. */
static int processes(const struct device *device, const char *list, unsigned *room, char *infos, size_t size)
{
	unsigned found = 0;
	for (int i = 0; i < machine.processes; i++) {
		struct process *process = &machine.process[i];
		if (strcmp(process->list, list) != 0 || !runs_on(process, device))
			continue;
		if (found < *room) {
			struct info info = {process->pid, process->bytes, process->gi, process->ci};
			memcpy(infos + found * size, &info, size);
		}
		found++;
	}
	int fits = found <= *room;
	*room = found;
	return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

/* PyTorch calls it for the text of an out-of-memory error. */
int nvmlDeviceGetComputeRunningProcesses(struct device *device, unsigned *room, struct info_v1 *infos)
{
	BEGIN(device);
	return processes(device, "compute", room, (char *)infos, sizeof *infos);
}

#ifdef FAKE_NVML_OLD

int nvmlDeviceGetPciInfo(struct device *device, struct pci *out)
{
	BEGIN(device);
	return pci(device, out);
}

int nvmlDeviceGetGraphicsRunningProcesses(struct device *device, unsigned *room, struct info_v1 *infos)
{
	BEGIN(device);
	return processes(device, "graphics", room, (char *)infos, sizeof *infos);
}

#else

int nvmlInit_v2(void) { return start(__func__); }

struct memory_v2 {
	unsigned version; /* size and 2 << 24 */
	unsigned long long total, reserved, free, used;
};

enum { RESERVED = 1 << 20 };

/* What the driver reserves for itself is not part of what is used. */
int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *memory)
{
	BEGIN(device);
	if (memory->version != (sizeof *memory | 2 << 24))
		return VERSION_MISMATCH;
	memory->total = device->total;
	memory->reserved = RESERVED;
	memory->used = used(device);
	memory->free = device->total - memory->used - RESERVED;
	return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **found)
{
	unsigned domain, bus, slot;

	BEGIN(NULL);
	if (sscanf(bus_id, "%x:%x:%x.0", &domain, &bus, &slot) != 3)
		return INVALID_ARGUMENT;
	for (int i = 0; i < machine.devices; i++) {
		struct device *card = &machine.device[i];
		if (card->parent < 0 && card->domain == domain && card->bus == bus && card->slot == slot) {
			*found = card;
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

int nvmlDeviceGetBAR1MemoryInfo(struct device *device, struct memory *memory)
{
	BEGIN(device);
	*memory = (struct memory){256 << 20, 255 << 20, 1 << 20};
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *cards)
{
	BEGIN(NULL);
	return count(cards);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **found)
{
	struct device *device = NULL;
	by_index(index, &device);
	BEGIN(device);
	return by_index(index, found);
}

int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci *out)
{
	BEGIN(device);
	return pci(device, out);
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *room, struct info *infos)
{
	BEGIN(device);
	return processes(device, "compute", room, (char *)infos, sizeof *infos);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *device, unsigned *room, struct info *infos)
{
	BEGIN(device);
	return processes(device, "graphics", room, (char *)infos, sizeof *infos);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *device, unsigned *room, struct info *infos)
{
	BEGIN(device);
	return processes(device, "mps", room, (char *)infos, sizeof *infos);
}

struct addressing {
	unsigned version, value;
};

int nvmlDeviceGetAddressingMode(struct device *device, struct addressing *mode)
{
	BEGIN(device);
	mode->value = device->addressing;
	return SUCCESS;
}

int nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending)
{
	BEGIN(device);
	if (device->mig == MIG_NONE)
		return NOT_SUPPORTED;
	*current = *pending = device->mig == MIG_ON;
	return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *places)
{
	BEGIN(device);
	*places = device->mig == MIG_NONE ? 0 : MAX_INSTANCES;
	return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *card, unsigned place, struct device **found)
{
	BEGIN(card);
	for (int i = 0; i < machine.devices; i++) {
		struct device *device = &machine.device[i];
		if (device->parent == card - machine.device && device->place == (int)place) {
			*found = device;
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(struct device *device, unsigned *id)
{
	BEGIN(device);
	*id = (unsigned)device->gi;
	return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(struct device *device, unsigned *id)
{
	BEGIN(device);
	*id = (unsigned)device->ci;
	return SUCCESS;
}

/* Before PyTorch maps an expandable segment it asks whether the GPU belongs to an NVLink fabric, which this one does not. */
int nvmlDeviceGetGpuFabricInfoV(struct device *device, void *info) { (void)info; BEGIN(device); return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *device, unsigned link, int *type) { (void)link, (void)type; BEGIN(device); return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *device, unsigned link, struct pci *to) { (void)link, (void)to; BEGIN(device); return NOT_SUPPORTED; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

#endif
