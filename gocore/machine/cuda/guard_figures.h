/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers of gpuconf_guard_figures and gpuconf_guard_processes, for the guard (gocore/lease/guard) and the core. It
 * is here because the go command notices changes only of headers in a package's own folder.
 */
#ifndef GPUCONF_GUARD_FIGURES_H
#define GPUCONF_GUARD_FIGURES_H

#include <stdint.h>

/* Bytes of all processes of the job with the least left on a card: the limit is the sum of the others. */
struct card_figures {
	uint64_t limit, pools, outside, left;
};

/* What a process of that job has of the card, in bytes. */
struct card_process {
	uint32_t pid;
	uint64_t used;
};

#endif
