/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory of a card is in use: by this machine, and by the other processes that have the same card. They
 * account for it in a file of gocore/lease/budget, in which a card's limit is its size. The file's path is an option of
 * a machine that is opened; the process's own machine has it from GPUCONF_SIMULATED_CARDS, which `gpuconf run
 * --simulate` sets.
 *
 * What a card's spec says that others use is no part of the limit, and of no account.
 *
 * The kernel drops a process's lock in the file when it ends, however it ends, and what it had is free at the next look
 * of another.
 */
#include "driver.h"

#include "../../lease/budget/budget.h"
#include "../../machine/models/simulator.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file has one bit for all of a process's references to a share. */
struct held_share {
	uint64_t number;
	int count;
	struct held_share *next;
};

void budget_note(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	fputs("gpuconf: simulated GPUs: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

/* Whether the file has the machine's cards. If not, the program has chosen another machine than its job's, which it has
 * for itself. */
static int is_of_job(const struct budget *budget) {
	for (int i = 0; i < m->gpus; i++) {
		unsigned char uuid[16];
		card_uuid(i, uuid);
		m->gpu[i].place = place_in_budget(budget, uuid);
		if (m->gpu[i].place < 0 || budget->file->card[m->gpu[i].place].limit != m->gpu[i].total - m->gpu[i].others)
			return 0;
	}
	return 1;
}

/* A machine that is opened says it to its caller, and the process's own, whose caller gets a number, to the user. */
static CUresult complain(const char *path, const char *why) {
	if (m->opened)
		snprintf(m->trouble, sizeof m->trouble,
		    "the file of shared simulated GPUs, %s, cannot be used: %s. Unset " SHARED_CARDS " if its job has ended",
		    path, why);
	else
		budget_note(SHARED_CARDS ": %s cannot be used: %s. Unset the variable if its job has ended", path, why);
	return OPERATING_SYSTEM;
}

static const char *path_of_cards(void) { return m->opened ? m->shared_path : secure_getenv(SHARED_CARDS); }

int has_shared_cards(void) {
	const char *path = path_of_cards();
	return path != NULL && *path != 0;
}

/* Without a file the machine has its cards alone. A file that cannot be used is an error; one of other cards is not. */
CUresult share_cards(void) {
	const char *path = path_of_cards();
	char why[256] = "the host has no memory left";
	if (!has_shared_cards())
		return SUCCESS;
	struct budget *budget = calloc(1, sizeof *budget);
	int opened = budget != NULL && open_budget(path, 1, budget, why, sizeof why);
	if (opened && is_of_job(budget)) {
		m->shared = budget;
		return SUCCESS;
	}
	if (opened)
		close_budget(budget);
	free(budget);
	return opened ? SUCCESS : complain(path, why);
}

/* What the process had is free for the others from here on, and what it holds of shares ends with it. */
void end_sharing(void) {
	if (m->shared != NULL)
		close_budget(m->shared);
	free(m->shared);
	m->shared = NULL;
	free_list(m->held_shares, offsetof(struct held_share, next));
	m->held_shares = NULL;
}

/* The child has its parent's descriptors, and must not give up what that still has. */
void forget_sharing(struct machine *machine) {
	if (machine->shared != NULL)
		forget_budget(machine->shared);
	free(machine->shared);
	machine->shared = NULL;
	machine->held_shares = NULL;
}

/* The own count is checked first, and then the file's, which another process may change at any time: only that
 * decides. */
int use_card(struct gpu *gpu, uint64_t bytes) {
	if (bytes > left(gpu))
		return 0;
	if (m->shared != NULL && bytes > 0 && gpu->spill > 0) {
		take_beyond(m->shared, gpu->place, bytes); /* WSL: the rest is the host's memory */
	} else if (m->shared != NULL && bytes > 0) {
		if (!take_from(m->shared, gpu->place, bytes))
			return 0;
		give_to(m->shared, gpu->place, UNDECIDED);
	}
	gpu->used += bytes;
	return 1;
}

/* The own count falls before the file's, so that this process never says that it has more than it does. */
void leave_card(struct gpu *gpu, uint64_t bytes) {
	gpu->used -= bytes;
	if (m->shared != NULL)
		give_to(m->shared, gpu->place, bytes);
}

void mark_managed(const struct gpu *gpu, int64_t bytes) {
	if (m->shared != NULL && has_slot(m->shared))
		mark_pools_in(m->shared, gpu->place, bytes);
}

void count_context(const struct gpu *gpu, int difference) {
	if (m->shared != NULL)
		count_contexts_in(m->shared, gpu->place, difference);
}

/* What others use is the file's to say. Managed memory is on the card as far as other memory leaves room there. */
uint64_t free_bytes(const struct gpu *gpu) {
	uint64_t used = gpu->used, resident = gpu->concurrent ? gpu->managed : 0;
	if (m->shared != NULL) {
		used = used_of(m->shared, gpu->place) + gpu->others;
		resident = pools_of(m->shared, gpu->place);
	}
	uint64_t room = used < gpu->total ? gpu->total - used : 0;
	return resident < room ? room - resident : 0;
}

static struct held_share **find_held(uint64_t number) {
	struct held_share **link = &m->held_shares;
	FIND(link, (*link)->number == number);
	return link;
}

/* The first reference in this process makes an element; the file has one bit for all of them. */
static void hold(uint64_t number) {
	struct held_share *held = *find_held(number);
	if (held == NULL)
		held = ADD(m->held_shares, .number = number);
	held->count++;
}

/* The bytes were charged to this process; from now on the share has them. */
int share_export(const struct gpu *gpu, uint64_t number, uint64_t bytes) {
	if (m->shared == NULL || !has_slot(m->shared) || !share_in(m->shared, number, gpu->place, bytes))
		return 0;
	hold(number);
	return 1;
}

int join_export(uint64_t number) {
	if (m->shared == NULL || !join_share_in(m->shared, number))
		return 0;
	hold(number);
	return 1;
}

void leave_export(uint64_t number) {
	struct held_share **link = find_held(number);
	if (m->shared == NULL || *link == NULL || --(*link)->count > 0)
		return;
	free(TAKE_OUT(link));
	leave_share_in(m->shared, number);
}

/* Bytes that this process was charged become the share's: of a pool that grows after its export. */
void grow_export(struct gpu *gpu, uint64_t number, uint64_t bytes) {
	if (m->shared != NULL && bytes > 0)
		grow_share_in(m->shared, number, gpu->place, bytes);
}

void shrink_export(struct gpu *gpu, uint64_t number, uint64_t bytes) {
	gpu->used -= bytes;
	if (m->shared != NULL)
		shrink_share_in(m->shared, number, bytes);
}
