/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of simulated machines: a comma-separated list of [N x]MODEL[:MEMORY][:PROFILE]..., such as
 * 2xT4:8GiB:no-peers:driver=12.2.
 *
 * Nothing here allocates or keeps state. Texts need no terminating NUL, and may be any bytes. A complaint is a
 * sentence, NUL-terminated, cut to the room that the caller has; GPUCONF_COMPLAINT bytes are enough for all of them.
 */
#ifndef GPUCONF_SPEC_H
#define GPUCONF_SPEC_H

#include "models.h"

enum { GPUCONF_MOST_CARDS = 64, GPUCONF_COMPLAINT = 2048 };

/*
 * How the machine around a card behaves, with who reports it.
 *
 * wsl: cuMemAlloc succeeds beyond the card, into host memory; free memory is 0 then, and NVML knows no process's memory
 *   (microsoft/WSL#11050); cuMemSetAccess fails with 999 on memory that was made for GPUDirect RDMA, which an attribute
 * says is supported (pytorch/pytorch#192330); managed memory cannot exceed the card (NVIDIA's CUDA on WSL user guide,
 * known limitations). mig-container: a program sees the smallest MIG instance of the card; NVML's queries of the card's
 * memory, processes and use have no permission (NVIDIA/nvidia-container-toolkit#842, NVIDIA/k8s-device-plugin#1683,
 * vllm-project/vllm#50463). unified: the CPU shares the memory, as on GB10. NVML does not support the query of memory
 * (XuehaiPan/nvitop#208). no-peers: no card can access another (dphnAI/sonar#360). mps: the program is a client of the
 * multi-process service: CUDA's attribute says so, and NVML lists it with MPS's processes (NVIDIA's MPS guide; NVML's
 * nvmlDeviceGetMPSComputeRunningProcesses). contexts: each context takes memory of the card, what gpuconf_context says
 * (tests_py/driver/calls; models.h). no-limit: allocations succeed beyond the card; free memory is 0 then. No machine
 * is so: a rehearsal counts what a program needs.
 */
enum gpuconf_profile {
	GPUCONF_WSL = 1,
	GPUCONF_MIG_CONTAINER = 2,
	GPUCONF_AS_UNIFIED = 4,
	GPUCONF_NO_PEERS = 8,
	GPUCONF_MPS = 16,
	GPUCONF_NO_LIMIT = 32,
	GPUCONF_WITH_CONTEXTS = 64
};

struct gpuconf_card {
	const struct gpuconf_model *model;
	uint64_t memory;
	unsigned profile; /* of enum gpuconf_profile */
	int driver;       /* as cuDriverGetVersion reports it, such as 11080; 0: the simulator's own */
};

/* What a program sees of a card: the model's values as the profile changes them. */
struct gpuconf_view {
	char name[96]; /* as the driver reports it */
	char bus[16];
	unsigned char uuid[16], instance[16]; /* they differ for a MIG instance */
	uint64_t total;
	int multiprocessors, l2_bytes;
	int integrated, host_page_tables; /* where memory is */
	int oversubscribes;               /* managed memory may exceed the card */
	int mps, wsl, mig;
};

/* What is left of a text. */
struct gpuconf_reader {
	const char *at, *end;
	long most; /* GPUs in all */
	int begun;
};

/* Reads an entry: returns how often the card is there, 0 at the end, -1 with a complaint. Start with at and end of a
 * text, and most. */
long gpuconf_read_entry(struct gpuconf_reader *reader, struct gpuconf_card *card, char *complaint, size_t room);

/*
 * Reads a machine of at most GPUCONF_MOST_CARDS: returns how many cards, -1 with a complaint that quotes the text. All
 * cards of a machine have one driver.
 */
int gpuconf_read_spec(const char *text, size_t bytes, struct gpuconf_card *cards, char *complaint, size_t room);

/* Writes the shortest entry that is read as the card, and returns its length; 128 bytes are enough. */
int gpuconf_write_card(const struct gpuconf_card *card, char *text, size_t room);

/* The name of profile 1 << index, NULL behind the last one. */
const char *gpuconf_profile_name(int index);

void gpuconf_see(const struct gpuconf_card *card, int slot, struct gpuconf_view *view);

/* Whether no other GPU has access to its memory, although that is not the host's. */
int gpuconf_is_alone(const struct gpuconf_model *model, unsigned profile);

/* Orders cards as CUDA_DEVICE_ORDER=FASTEST_FIRST does, as far as that is known: by peak single precision arithmetic.
 */
uint64_t gpuconf_card_speed(const struct gpuconf_card *card);

/* The same in every process for the same card in the same slot. It differs between slots. */
void gpuconf_card_uuid(const struct gpuconf_card *card, int slot, unsigned char uuid[16]);

/* Assigns the slots to the buses of one PCI domain, in ascending order; there is room for 64. */
void gpuconf_card_bus(int slot, char text[16]);

#endif
