/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments that a driver's pools, and its reserve for graphs, grow by: a request may take one more than its own
 * bytes fill. An H200 with driver 580 has 32 MiB (tests_py/driver/calls). That is assumed until a pool has reserved
 * something; from then on, it is the greatest common divisor of what was reserved, but not more than 32 MiB unless a
 * pool has grown by more than that explains. So it is a multiple of the driver's, or its own.
 */
#include "guard.h"

#define ASSUMED (UINT64_C(32) << 20)

static uint64_t common; /* divisor of what was reserved; 0: nothing was yet */
static int larger;

static uint64_t divisor(uint64_t a, uint64_t b) {
	while (b != 0) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

void learn_segment(uint64_t reserved, int grew_beyond) {
	uint64_t seen = __atomic_load_n(&common, __ATOMIC_RELAXED), now = divisor(reserved, seen);

	while (now != seen && !__atomic_compare_exchange_n(&common, &seen, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		now = divisor(reserved, seen);
	if (UNLIKELY(grew_beyond))
		__atomic_store_n(&larger, 1, __ATOMIC_RELAXED);
}

uint64_t segments(uint64_t bytes) {
	uint64_t seen = __atomic_load_n(&common, __ATOMIC_RELAXED);
	uint64_t unit = seen == 0 || __atomic_load_n(&larger, __ATOMIC_RELAXED) ? seen : divisor(ASSUMED, seen);

	if (unit == 0)
		unit = ASSUMED;
	return bytes > UINT64_MAX - unit ? UINT64_MAX : (bytes + unit - 1) / unit * unit;
}
