/* SPDX-License-Identifier: Apache-2.0 */
#include "models.h"
#include "spec.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define KIB 1024
#define ROW(major, minor, lanes, for_double, shared, of_block, registers, threads, blocks, priority, granule) \
	{major, minor, lanes, for_double, shared * KIB, of_block * KIB, registers * KIB, threads, blocks, priority, \
	    (uint64_t)granule << 20},
static const struct gpuconf_capability capabilities[] = {GPUCONF_CAPABILITIES(ROW)};
#undef ROW

/* The place of a capability's row, as a constant. */
#define ROW(major, minor, ...) AT_##major##_##minor,
enum { GPUCONF_CAPABILITIES(ROW) CAPABILITIES };
#undef ROW

#define ROW(name, alias, product, cuda, nvml, kind, major, minor, sms, mhz, memory_mhz, bus, l2) \
	{name, alias, product, (uint64_t)(cuda) << 10, (uint64_t)(nvml) << 20, GPUCONF_##kind, \
	    &capabilities[AT_##major##_##minor], sms, mhz, memory_mhz, bus, l2 * KIB},
static const struct gpuconf_model models[] = {GPUCONF_MODELS(ROW)};
#undef ROW

#define ROW(...) {__VA_ARGS__},
static const struct gpuconf_slice slices[] = {GPUCONF_SLICES(ROW)};
static const struct gpuconf_driver drivers[] = {GPUCONF_DRIVERS(ROW)};
static const struct {
	int major, mib;
} contexts[] = {GPUCONF_CONTEXTS(ROW)};
#undef ROW

const struct gpuconf_model *gpuconf_model(int index) {
	return index >= 0 && (size_t)index < sizeof models / sizeof *models ? &models[index] : NULL;
}

const struct gpuconf_capability *gpuconf_capability(int major, int minor) {
	for (int i = 0; i < CAPABILITIES; i++)
		if (capabilities[i].major == major && capabilities[i].minor == minor)
			return &capabilities[i];
	return NULL;
}

const struct gpuconf_driver *gpuconf_driver(int index) {
	return index >= 0 && (size_t)index < sizeof drivers / sizeof *drivers ? &drivers[index] : NULL;
}

const struct gpuconf_slice *gpuconf_slice(const struct gpuconf_model *model) {
	for (size_t i = 0; i < sizeof slices / sizeof *slices; i++)
		if (strcmp(slices[i].model, model->name) == 0)
			return &slices[i];
	return NULL;
}

uint64_t gpuconf_context(uint64_t memory, int major) {
	int row = 0;
	while (contexts[row].major < major) /* the last row is for all */
		row++;
	uint64_t usual = (uint64_t)contexts[row].mib << 20;
	return usual < memory / 8 ? usual : memory / 8;
}

static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

static int is_prime(unsigned n) {
	for (unsigned d = 2; d * d <= n; d++)
		if (n % d == 0)
			return 0;
	return 1;
}

/* The first 32 bits of the fraction of a root of n: SHA-256's constants are those of the first primes (FIPS
 * 180-4, 4.2.2 and 5.3.3). */
static uint32_t fraction(unsigned n, int root) {
	unsigned __int128 wanted = (unsigned __int128)n << (32 * root), low = 0, high = (unsigned __int128)1 << 38;
	while (high - low > 1) {
		unsigned __int128 middle = (low + high) / 2, power = root == 2 ? middle * middle : middle * middle * middle;
		if (power <= wanted)
			low = middle;
		else
			high = middle;
	}
	return (uint32_t)low;
}

/* A block of 64 bytes. */
static void digest(uint32_t state[8], const unsigned char block[64]) {
	uint32_t w[64], s[8];
	memcpy(s, state, sizeof s);
	unsigned prime = 1;
	for (int i = 0; i < 64; i++) {
		if (i < 16)
			w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
			       block[4 * i + 3];
		else
			w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
			       (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
		do
			prime++;
		while (!is_prime(prime));
		uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) +
		               fraction(prime, 3) + w[i];
		uint32_t two =
		    (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof *s);
		s[4] += one;
		s[0] = one + two;
	}
	for (int i = 0; i < 8; i++)
		state[i] += s[i];
}

void gpuconf_card_uuid(const struct gpuconf_card *card, int slot, unsigned char uuid[16]) {
	static const unsigned primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
	unsigned char text[128] = {0}; /* two blocks hold every text: the longest has 74 bytes */
	int n = snprintf((char *)text, 112, "gpuconf simulated GPU %d %s %llu", slot, card->model->name,
	    (unsigned long long)card->memory);
	int blocks = n + 9 > 64 ? 2 : 1;
	text[n] = 0x80;
	text[64 * blocks - 2] = (unsigned char)(8 * n >> 8);
	text[64 * blocks - 1] = (unsigned char)(8 * n);
	uint32_t state[8];
	for (int i = 0; i < 8; i++)
		state[i] = fraction(primes[i], 2);
	for (int i = 0; i < blocks; i++)
		digest(state, text + 64 * i);
	for (int i = 0; i < 16; i++)
		uuid[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void gpuconf_card_bus(int slot, char text[16]) {
	enum { FIRST = 0x17, STEP = 3 };
	snprintf(text, 16, "0000:%02x:00.0", (unsigned)(FIRST + STEP * slot) & 0xff);
}

uint64_t gpuconf_card_speed(const struct gpuconf_card *card) {
	return (uint64_t)card->model->multiprocessors * (uint64_t)card->model->capability->lanes *
	       (uint64_t)card->model->clock_mhz;
}

void gpuconf_see(const struct gpuconf_card *card, int slot, struct gpuconf_view *view) {
	const struct gpuconf_model *model = card->model;
	int major = model->capability->major, minor = model->capability->minor, wsl = (card->profile & GPUCONF_WSL) != 0;
	int unified = model->kind == GPUCONF_UNIFIED || card->profile & GPUCONF_AS_UNIFIED;
	*view = (struct gpuconf_view){
	    .total = card->memory,
	    .multiprocessors = model->multiprocessors,
	    .l2_bytes = model->l2_bytes,
	    .integrated = unified,
	    .host_page_tables = model->kind == GPUCONF_COHERENT ||
		                    (model->kind == GPUCONF_UNIFIED && major == 12 && minor == 1), /* GB10 has both */
	    .oversubscribes = major >= 6 && !wsl,
	    .mps = (card->profile & GPUCONF_MPS) != 0,
	    .wsl = wsl,
	    .mig = (card->profile & GPUCONF_MIG_CONTAINER) != 0,
	};
	snprintf(view->name, sizeof view->name, "%s", model->product);
	gpuconf_card_bus(slot, view->bus);
	gpuconf_card_uuid(card, slot, view->uuid);
	memcpy(view->instance, view->uuid, sizeof view->uuid);
	const struct gpuconf_slice *slice = gpuconf_slice(model);
	if (!view->mig || slice == NULL)
		return;
	snprintf(view->name, sizeof view->name, "%s MIG %s", model->product, slice->name);
	view->instance[0] ^= 0xff;
	view->multiprocessors = slice->multiprocessors;
	view->l2_bytes /= slice->slices;
	if (card->memory == model->memory)
		view->total = (uint64_t)slice->memory_mib << 20;
}

int gpuconf_is_alone(const struct gpuconf_model *model, unsigned profile) {
	static const char without[] = "NVIDIA GeForce RTX";
	return (profile & (GPUCONF_NO_PEERS | GPUCONF_MIG_CONTAINER)) != 0 ||
	       strncmp(model->product, without, sizeof without - 1) == 0;
}
