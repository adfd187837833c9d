/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs: those of the machine that GPUCONF_SIMULATE names, whose grammar, models and profiles are in
 * gocore/machine/models, or of one that the core opens. What a program can ask of each is in properties.c.
 */
#include "driver.h"

#include "../../machine/models/simulator.h"
#include "../../machine/models/spec.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct gpuconf_view view_of(const struct simulator_card *card) {
	struct gpuconf_card named = {gpuconf_model(card->model - 1), card->memory, card->profile, 0};
	struct gpuconf_view view;
	gpuconf_see(&named, card->slot, &view);
	return view;
}

/* The UUID that programs see: of the card, or of its MIG instance. Without a description each GPU of a test has one
 * of its own. */
static void uuid_bytes(int physical, int instance, unsigned char *bytes) {
	if (m->cards != NULL) {
		struct gpuconf_view view = view_of(&m->cards[physical]);
		memcpy(bytes, instance ? view.instance : view.uuid, 16);
		return;
	}
	static const unsigned char model[16] = {
	    0xfa, 0xce, 0xd0, 0x0d, 0x12, 0x34, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x00};
	memcpy(bytes, model, sizeof model);
	bytes[0] = (unsigned char)(0xf0 - physical * 3); /* UUIDs differ in their first byte */
	bytes[15] = (unsigned char)physical;
}

static int is_instance(int physical) {
	return m->cards != NULL && (m->cards[physical].profile & GPUCONF_MIG_CONTAINER) != 0;
}

/* "GPU-..." or, for a MIG instance, "MIG-...". */
static int device_uuid_text(int physical, char *text) {
	unsigned char b[16];
	int instance = is_instance(physical);
	uuid_bytes(physical, instance, b);
	return sprintf(text, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
	    instance ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
	    b[13], b[14], b[15]);
}

/* As the file of shared cards has it, in which an instance is a card. */
void card_uuid(int gpu, unsigned char uuid[16]) { uuid_bytes(m->gpu[gpu].physical, 1, uuid); }

/* An entry of CUDA_VISIBLE_DEVICES: an index, or the beginning of a UUID, which must name one card only. -1: it names
 * no card. */
static int physical_of(const char *entry, int physical_count, int *by_uuid) {
	*by_uuid = strncmp(entry, "GPU-", 4) == 0 || strncmp(entry, "MIG-", 4) == 0;
	if (!*by_uuid) {
		char *end;
		long index = strtol(entry, &end, 10);
		return end == entry || index < 0 || index >= physical_count ? -1 : (int)index;
	}
	int found = -1;
	for (int i = 0; i < physical_count; i++) {
		char text[48];
		device_uuid_text(i, text);
		if (strncmp(text, entry, strlen(entry)) == 0) {
			if (found >= 0)
				return -1;
			found = i;
		}
	}
	return found;
}

/*
 * The list ends at the first entry that names no GPU, or is of another kind than the first entry. A GPU named twice
 * hides all GPUs.
 */
static int select_visible(int physical_count, int *physical) {
	const char *value = getenv("CUDA_VISIBLE_DEVICES");
	int count = 0, kind = -1;
	if (value == NULL) {
		for (; count < physical_count; count++)
			physical[count] = count;
		return count;
	}
	char copy[4096], *rest = copy, *entry;
	snprintf(copy, sizeof copy, "%s", value);
	while (count < MAX_GPUS && (entry = strsep(&rest, ",")) != NULL) {
		int by_uuid, index = physical_of(entry, physical_count, &by_uuid);
		if (index < 0 || (kind >= 0 && kind != by_uuid))
			break;
		kind = by_uuid;
		for (int i = 0; i < count; i++)
			if (physical[i] == index)
				return 0;
		physical[count++] = index;
	}
	return count;
}

/* A machine with shared cards has its memory in a file, which grows with it (memory.c). */
static uint64_t arena_of_file(int gpu, uint64_t bytes) {
	uint64_t addr = map_in_order(bytes, BLOCK, PROT_NONE);
	int file = addr != 0 ? memfd_create("gpuconf-simulated-gpu-linear", MFD_CLOEXEC) : -1;
	if (file < 0 || mmap((void *)(uintptr_t)addr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) ==
	                    MAP_FAILED) {
		if (addr != 0)
			munmap((void *)(uintptr_t)addr, bytes);
		if (file >= 0)
			close(file);
		return 0;
	}
	if (m->arena_files[gpu] > 0)
		close(m->arena_files[gpu]);
	m->arena_files[gpu] = file;
	m->arena_bytes[gpu] = bytes;
	return m->arenas[gpu] = addr;
}

/* Address space for a GPU's linear memory, twice its size: blocks leave holes. It is kept across restarts of the
 * driver, and grows when a later machine is larger. */
static uint64_t arena(int gpu, uint64_t bytes) {
	if (has_shared_cards())
		return m->arena_files[gpu] > 0 && m->arena_bytes[gpu] >= bytes ? m->arenas[gpu] : arena_of_file(gpu, bytes);
	if (m->arena_bytes[gpu] < bytes) {
		if (m->cards != NULL) {
			m->arenas[gpu] = map_in_order(bytes, BLOCK, PROT_NONE);
			m->arena_bytes[gpu] = m->arenas[gpu] != 0 ? bytes : 0;
			return m->arenas[gpu];
		}
		void *at =
		    mmap(NULL, bytes + BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at == MAP_FAILED)
			return 0;
		m->arenas[gpu] = ((uint64_t)(uintptr_t)at + BLOCK - 1) / BLOCK * BLOCK;
		m->arena_bytes[gpu] = bytes;
	}
	return m->arenas[gpu];
}

/* What a GPU of no known model has: the values of an H100, and the limits of its own compute capability where that is
 * known. */
static void read_model(struct gpu *gpu, const struct simulator_card *card) {
	int place = card->model - 1;
	unsigned profile = card->profile;
	for (int i = 0; gpuconf_model(place) == NULL; i++)
		if (strcmp(gpuconf_model(i)->name, "H100-80GB") == 0)
			place = i;
	const struct gpuconf_model *known = gpuconf_model(place);
	gpu->model = known;
	gpu->limits = gpuconf_capability(gpu->major, gpu->minor);
	if (gpu->limits == NULL)
		gpu->limits = known->capability;
	const struct gpuconf_slice *slice = profile & GPUCONF_MIG_CONTAINER ? gpuconf_slice(known) : NULL;
	gpu->l2_bytes = known->l2_bytes / (slice != NULL ? slice->slices : 1);
	gpu->profile = profile;
	if (profile & GPUCONF_WSL) { /* Windows lends a card half of the host's memory */
		uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2 / GRANULE * GRANULE;
		gpu->spill = host < gpu->total ? host : gpu->total;
	}
	if (profile & GPUCONF_WITH_CONTEXTS)
		gpu->context_bytes = gpuconf_context(gpu->total, gpu->major) / GRANULE * GRANULE;
	if (profile & GPUCONF_NO_LIMIT)
		gpu->spill = NO_LIMIT;
}

/* What a description says of a GPU; what follows from its model is read_model's. */
static void read_card(struct gpu *gpu, const struct simulator_card *card) {
	const struct gpuconf_capability *limits = gpuconf_model(card->model - 1)->capability;
	struct gpuconf_view view = view_of(card);
	gpu->total = view.total;
	gpu->used = gpu->others = card->used_by_others;
	gpu->major = limits->major, gpu->minor = limits->minor;
	gpu->vmm = limits->granularity != 0 && !(card->lacks & LACKS_VMM);
	gpu->memops = !(card->lacks & LACKS_MEMOPS);
	gpu->greatest_priority = limits->greatest_priority;
	gpu->managed_memory = !(card->lacks & LACKS_MANAGED);
	gpu->concurrent = gpu->managed_memory && view.oversubscribes && !(card->lacks & LACKS_OVERSUBSCRIPTION);
	gpu->multiprocessors = view.multiprocessors;
	gpu->integrated = view.integrated;
	gpu->host_page_tables = view.host_page_tables;
	sscanf(view.bus, "%*x:%x", (unsigned *)&gpu->bus);
}

/* After a failure, m->gpus is the GPU that could not be made. */
static CUresult make_gpus(const int *physical, int count) {
	for (m->gpus = 0; m->gpus < count; m->gpus++) {
		struct gpu *gpu = &m->gpu[m->gpus];
		int file = gpu->memory_file;
		memset(gpu, 0, sizeof *gpu);
		gpu->memory_file = file;
		gpu->physical = physical[m->gpus];
		if (m->cards != NULL)
			read_card(gpu, &m->cards[gpu->physical]);
		else
			hooks_gpu(gpu);
		read_model(gpu, m->cards != NULL ? &m->cards[gpu->physical] : &(struct simulator_card){.model = 0});
		m->vmm |= gpu->vmm;
		gpu->arena = arena(m->gpus, (2 * (gpu->total + gpu->spill) + BLOCK - 1) / BLOCK * BLOCK);
		gpu->committed =
		    m->cards != NULL || m->arena_files[m->gpus] > 0 ? gpu->arena : gpu->arena + m->arena_bytes[m->gpus];
		if (file == 0)
			gpu->memory_file = memfd_create(MEMORY_FILE, MFD_CLOEXEC);
		if (gpu->arena == 0 || gpu->memory_file < 0)
			return UNKNOWN;
	}
	return SUCCESS;
}

/* The cards of GPUCONF_SIMULATE become the machine's at its start, so that a restart may read others. */
static int read_cards(void) {
	struct simulator_card *cards = NULL;
	m->card_count = cards_of_environment(&cards);
	m->cards_of_environment = cards != NULL;
	m->cards = cards;
	return m->card_count;
}

/*
 * The lock is held. It may be called again and again: a machine that has started, or has found no device, says so at
 * once. Shared cards come after the GPUs, whose sizes they are compared with, and blocks after those, since they
 * depend on whether cards are shared.
 */
CUresult start(void) {
	if (m->forked) /* older drivers were asked without a device */
		return driver_version() >= 13000 ? NOT_INITIALIZED : OPERATING_SYSTEM;
	if (m->started)
		return m->gpus > 0 ? SUCCESS : NO_DEVICE;
	int physical[MAX_GPUS], count = m->card_count;
	m->vmm = 0;
	if (m->cards == NULL)
		count = read_cards();
	if (count < 0) {
		m->no_device = 1;
		return NO_DEVICE;
	}
	if (m->cards_of_environment) {
		m->lenient = 1; /* as NVIDIA's driver is: the checks are for tests */
		count = select_visible(count, physical);
	} else if (m->cards == NULL) {
		count = hooks_machine();
		count = select_visible(count < MAX_GPUS ? count : MAX_GPUS, physical);
	} else {
		for (int i = 0; i < count; i++)
			physical[i] = i;
	}
	TRY(make_gpus(physical, count));
	m->no_device = m->gpus == 0;
	if (m->no_device)
		return NO_DEVICE;
	TRY(share_cards());
	choose_blocks();
	m->started = 1;
	return SUCCESS;
}

/* A program that calls it wants the driver for itself: it no longer only lists the cards, which a fork would allow it
 * to do again. */
EXPORT CUresult cuInit(unsigned flags) {
	TRY(called("cuInit", 0));
	if (flags != 0)
		return INVALID_VALUE;
	LOCKED;
	__atomic_store_n(&m->only_listed, 0, __ATOMIC_SEQ_CST);
	TRY(start());
	begin_control();
	return SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
	CUresult result = called("cuDriverGetVersion", 0);
	NEED(version);
	*version = driver_version();
	return result;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
	CALLED(cuDeviceGetCount);
	NEED(count);
	*count = m->gpus;
	return SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
	CALLED(cuDeviceGet);
	NEED(device);
	KNOWN(ordinal);
	*device = ordinal;
	return SUCCESS;
}

/* The name is cut where there is no room, and always ends with a zero. */
EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
	CALLED(cuDeviceGetName);
	NEEDS(name, device);
	if (bytes == 0)
		return SUCCESS; /* there is no room for a NUL */
	if (m->cards != NULL)
		snprintf(name, (size_t)bytes, "%s", view_of(&m->cards[m->gpu[device].physical]).name);
	else
		snprintf(name, (size_t)bytes, "NVIDIA Fake %dGB", (int)(m->gpu[device].total >> 30));
	return SUCCESS;
}

/* The newer form names the instance of MIG, the older one its card. */
#define UUID(name, since, instance) \
	EXPORT CUresult name(unsigned char *uuid, CUdevice device) { \
		CALLED_SINCE(since, name); \
		NEEDS(uuid, device); \
		uuid_bytes(m->gpu[device].physical, instance, uuid); \
		return SUCCESS; \
	}
UUID(cuDeviceGetUuid, 0, 0)
UUID(cuDeviceGetUuid_v2, 11040, 1)

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device) {
	CALLED(cuDeviceGetPCIBusId);
	NEEDS(id, device);
	if (bytes < 13)
		return INVALID_VALUE;
	if (m->cards != NULL)
		snprintf(id, (size_t)bytes, "%s", view_of(&m->cards[m->gpu[device].physical]).bus);
	else
		snprintf(id, (size_t)bytes, "0000:%02X:00.0", m->gpu[device].bus);
	return SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
	CALLED(cuDeviceTotalMem);
	NEEDS(bytes, device);
	*bytes = m->gpu[device].total;
	return SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice device) {
	CALLED(cuDeviceTotalMem_v1);
	NEEDS(bytes, device);
	*bytes = m->gpu[device].total > UINT32_MAX ? UINT32_MAX : (unsigned)m->gpu[device].total;
	return SUCCESS;
}

/* gpuconf_simulator_used says to NVML how much of a card this process's machine has given out: 0, or -1 for a card that
 * it does not have. */
EXPORT int gpuconf_simulator_used(const char *uuid, uint64_t *total, uint64_t *used) {
	char text[48];
	int result = -1;
	hold_machines();
	LOCK_ANYWAY;
	for (int i = 0; i < m->gpus && result < 0; i++) {
		const struct gpu *gpu = &m->gpu[i];
		device_uuid_text(gpu->physical, text);
		if (strcmp(text, uuid) != 0)
			continue;
		*total = gpu->total;
		*used = gpu->total - free_bytes(gpu);
		result = 0;
	}
	UNLOCK;
	let_machines_go();
	return result;
}

/* gpuconf_simulator_held says how much of a card this process has beside its contexts: 0, or -1 for a device that it
 * does not have. */
EXPORT int gpuconf_simulator_held(int device, uint64_t *held) {
	hold_machines();
	LOCK_ANYWAY;
	int found = device >= 0 && device < m->gpus ? 0 : -1;
	if (found == 0)
		*held = m->gpu[device].used - m->gpu[device].others;
	for (const struct context *one = m->contexts; found == 0 && one != NULL; one = one->next)
		*held -= one->alive && one->gpu == device ? m->gpu[device].context_bytes : 0;
	UNLOCK;
	let_machines_go();
	return found;
}

/* The process's machine. FAKECUDA_GPUS, of tests, comes first. */

/* secure_getenv: a program with other rights than its caller's reads no variable of the caller's. */
static const char *specification(void) {
	const char *spec = secure_getenv("GPUCONF_SIMULATE");
	return spec != NULL && *spec != '\0' && TEST_VARIABLE("GPUS") == NULL ? spec : NULL;
}

/* Returns how many cards, -1 if the specification is wrong, which is said once. */
static int read_specification(struct gpuconf_card *cards, int quiet) {
	static int said;
	char complaint[GPUCONF_COMPLAINT];
	const char *spec = specification();
	int count = spec != NULL ? gpuconf_read_spec(spec, strlen(spec), cards, complaint, sizeof complaint) : 0;
	if (count < 0 && !quiet && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "gpuconf's simulated CUDA driver has no GPUs: GPUCONF_SIMULATE: %s\n", complaint);
	return count;
}

int version_of_environment(void) {
	struct gpuconf_card cards[GPUCONF_MOST_CARDS];
	int version = 0, count = read_specification(cards, 1);
	for (int i = 0; i < count; i++)
		version = cards[i].driver > 0 ? cards[i].driver : version;
	return version;
}

/* In the order of CUDA_DEVICE_ORDER; equally fast ones in that of their buses. */
static void put_in_order(const struct gpuconf_card *cards, int count, int *slots) {
	const char *order = getenv("CUDA_DEVICE_ORDER");
	int by_bus = order != NULL && strcmp(order, "PCI_BUS_ID") == 0;
	for (int i = 0; i < count; i++) {
		int at = i;
		for (; !by_bus && at > 0 && gpuconf_card_speed(&cards[slots[at - 1]]) < gpuconf_card_speed(&cards[i]); at--)
			slots[at] = slots[at - 1];
		slots[at] = i;
	}
}

/* Returns how many cards, with the memory that they are in, which the machine frees. */
int cards_of_environment(struct simulator_card **out) {
	struct gpuconf_card cards[GPUCONF_MOST_CARDS];
	int slots[GPUCONF_MOST_CARDS], count = read_specification(cards, 0);
	if (count <= 0)
		return count;
	*out = calloc((size_t)count, sizeof **out);
	if (*out == NULL)
		return -1;
	put_in_order(cards, count, slots);
	for (int i = 0; i < count; i++) {
		const struct gpuconf_card *card = &cards[slots[i]];
		int place = 0;
		while (gpuconf_model(place) != card->model)
			place++;
		(*out)[i] = (struct simulator_card){place + 1, slots[i], card->memory, 0, card->profile, 0};
	}
	return count;
}
