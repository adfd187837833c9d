/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of simulated machines: a comma-separated list of [N x]MODEL[:MEMORY][:PROFILE]..., such as 2xT4:8GiB:no-peers:driver=12.2.
 *
 * Nothing here allocates or keeps state. Texts need no terminating NUL, and may be any bytes. A complaint is a sentence, NUL-terminated,
 * cut to the room that the caller has; GPUCONF_COMPLAINT bytes are enough for all of them.
 */
#ifndef GPUCONF_SPEC_H
#define GPUCONF_SPEC_H

#include "models.h"

enum { GPUCONF_MOST_CARDS = 64, GPUCONF_COMPLAINT = 2048 };

enum gpuconf_profile {
	GPUCONF_WSL = 1,           /* managed memory cannot exceed a card */
	GPUCONF_MIG_CONTAINER = 2, /* queries about the parent of a MIG instance have no permission */
	GPUCONF_AS_UNIFIED = 4,    /* the CPU shares the memory, as on GB10 */
	GPUCONF_NO_PEERS = 8,      /* no card can access another */
	GPUCONF_MPS = 16,          /* programs are clients of MPS */
};

struct gpuconf_card {
	const struct gpuconf_model *model;
	uint64_t memory;
	unsigned profile; /* of enum gpuconf_profile */
	int driver;       /* as cuDriverGetVersion reports it, such as 11080; 0: the newest */
};

/* What is left of a text. */
struct gpuconf_reader {
	const char *at, *end;
	long most; /* GPUs in all */
	int begun;
};

/* Reads an entry: returns how often the card is there, 0 at the end, -1 with a complaint. Start with at and end of a text, and most. */
long gpuconf_read_entry(struct gpuconf_reader *reader, struct gpuconf_card *card, char *complaint, size_t room);

/* Reads a machine of at most GPUCONF_MOST_CARDS: returns how many cards, -1 with a complaint that quotes the text. */
int gpuconf_read_spec(const char *text, size_t bytes, struct gpuconf_card *cards, char *complaint, size_t room);

/* Writes the shortest entry that is read as the card, and returns its length; 128 bytes are enough. */
int gpuconf_write_card(const struct gpuconf_card *card, char *text, size_t room);

/* The name of profile 1 << index, NULL behind the last one. */
const char *gpuconf_profile_name(int index);

/* The same in every process for the same card in the same slot. It differs between slots. */
void gpuconf_card_uuid(const struct gpuconf_card *card, int slot, unsigned char uuid[16]);

/* Assigns the slots to the buses of one PCI domain, in ascending order; there is room for 64. */
void gpuconf_card_bus(int slot, char text[16]);

#endif
