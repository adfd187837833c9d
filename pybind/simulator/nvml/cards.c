/* SPDX-License-Identifier: Apache-2.0 */
/* The cards of a spec, `[N x]MODEL[:MEMORY],...`, with the names, addresses and UUIDs that gocore/sim gives them. */
#include "nvml.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_ENTRY = 128, UNIT = 256 };

static const uint64_t max_memory = 16ull << 40;

static const struct model {
	const char *name, *alias, *product;
	int gib, major, minor, multiprocessors, clock;
} models[] = {
#define MODEL(...) {__VA_ARGS__},
#include "models.h"
};

static uint32_t turn(uint32_t word, int by) { return word >> by | word << (32 - by); }

/* A root's fractional bits, by Newton's method in integers: SHA-256's constants are those of the square and cube roots of primes. */
static uint32_t root_bits(unsigned prime, int power)
{
	unsigned __int128 low = 0, high = (unsigned __int128)1 << 40;
	while (low + 1 < high) { /* the greatest x with x^power <= prime * 2^(32 * power) */
		unsigned __int128 middle = (low + high) / 2, bound = (unsigned __int128)prime << (32 * power), value = middle;
		for (int i = 1; i < power; i++)
			value *= middle;
		if (value <= bound)
			low = middle;
		else
			high = middle;
	}
	return (uint32_t)low;
}

static unsigned next_prime(unsigned number)
{
	for (unsigned divisor = 2, candidate = number + 1;; divisor++) {
		if (divisor * divisor > candidate)
			return candidate;
		if (candidate % divisor == 0)
			candidate++, divisor = 1;
	}
}

/* SHA-256 (FIPS 180-4) of a text of at most 119 bytes. */
static void sha256(const char *text, unsigned char *digest)
{
	unsigned char block[128] = {0};
	uint32_t state[8], constants[64], w[64];
	size_t length = strlen(text), size = length < 56 ? 64 : 128;

	for (unsigned i = 0, prime = 2; i < 64; i++, prime = next_prime(prime)) {
		constants[i] = root_bits(prime, 3);
		if (i < 8)
			state[i] = root_bits(prime, 2);
	}
	memcpy(block, text, length);
	block[length] = 0x80;
	block[size - 2] = (unsigned char)(length >> 5);
	block[size - 1] = (unsigned char)(length << 3);
	for (size_t at = 0; at < size; at += 64) {
		uint32_t v[8];
		memcpy(v, state, sizeof v);
		for (int i = 0; i < 64; i++) {
			const unsigned char *b = block + at + 4 * i;
			if (i < 16)
				w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
			else
				w[i] = w[i - 16] + w[i - 7] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) +
				       (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
			uint32_t one = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + constants[i] + w[i];
			uint32_t two = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
			memmove(v + 1, v, 7 * sizeof *v);
			v[4] += one;
			v[0] = one + two;
		}
		for (int i = 0; i < 8; i++)
			state[i] += v[i];
	}
	for (int i = 0; i < 32; i++)
		digest[i] = (unsigned char)(state[i / 4] >> (24 - i % 4 * 8));
}

/* Copies a name without case, white space, hyphens and the brand. */
static void plain(const char *name, char *out)
{
	static const char *const brands[] = {"nvidia", "tesla", "geforce"};
	for (int again = 1; again;) {
		again = 0;
		while (isspace((unsigned char)*name) || *name == '-')
			name++;
		for (unsigned i = 0; i < 3; i++) {
			size_t length = strlen(brands[i]);
			if (strncasecmp(name, brands[i], length) == 0 && (isspace((unsigned char)name[length]) || name[length] == '-'))
				name += length, again = 1;
		}
	}
	for (; *name != '\0'; name++)
		if (!isspace((unsigned char)*name) && *name != '-')
			*out++ = (char)tolower((unsigned char)*name);
	*out = '\0';
}

static const struct model *find(const char *name)
{
	char wanted[MAX_ENTRY], known[MAX_ENTRY];
	plain(name, wanted);
	for (unsigned i = 0; i < sizeof models / sizeof *models; i++) {
		const char *names[] = {models[i].name, models[i].alias, models[i].product};
		for (unsigned j = 0; j < 3; j++) {
			plain(names[j], known);
			if (strcmp(known, wanted) == 0)
				return &models[i];
		}
	}
	return NULL;
}

static char *trim(char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	for (char *end = text + strlen(text); end > text && isspace((unsigned char)end[-1]);)
		*--end = '\0';
	return text;
}

/* Returns 0 if the text is no size of memory. */
static uint64_t bytes_of(const char *text)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "B", "KB", "MB", "GB", "TB"};
	uint64_t number = 0;
	const char *unit = text;
	for (; isdigit((unsigned char)*unit); unit++)
		if ((number = number * 10 + (uint64_t)(*unit - '0')) > max_memory)
			return 0;
	while (isspace((unsigned char)*unit))
		unit++;
	for (unsigned i = 0; i < 10; i++)
		if (strcasecmp(unit, units[i]) == 0 && number <= max_memory >> (i % 5 * 10)) {
			uint64_t bytes = number << (i % 5 * 10);
			return bytes % UNIT == 0 ? bytes : 0;
		}
	return 0;
}

static void add(const struct model *model, uint64_t bytes)
{
	int slot = machine.devices++;
	struct device *card = &machine.device[slot];
	char text[120];
	unsigned char d[32];

	snprintf(text, sizeof text, "gpuconf simulated GPU %d %s %llu", slot, model->name, (unsigned long long)bytes);
	sha256(text, d);
	int at = snprintf(card->uuid, sizeof card->uuid, "GPU-");
	for (int i = 0; i < 16; i++)
		at += snprintf(card->uuid + at, sizeof card->uuid - (size_t)at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", d[i]);
	snprintf(card->name, sizeof card->name, "%s", model->product);
	card->parent = -1;
	card->bus = 0x17 + 3 * (unsigned)slot;
	card->major = model->major;
	card->minor = model->minor;
	card->multiprocessors = model->multiprocessors;
	card->clock = model->clock;
	card->total = bytes;
}

static int entry(char *text, char *complaint, unsigned room)
{
	static const char example[] = "an example is 2xH100-80GB";
	char *rest = text, *memory;
	long count = strtol(isdigit((unsigned char)*text) ? text : "", &rest, 10);

	if (!isdigit((unsigned char)*text))
		rest = text;
	while (isspace((unsigned char)*rest))
		rest++;
	if (rest == text || (*rest != 'x' && *rest != 'X'))
		count = 1, rest = text;
	else
		rest++;
	if ((memory = strchr(rest, ':')) != NULL)
		*memory++ = '\0';
	const struct model *model = find(trim(rest));
	uint64_t bytes = model == NULL ? 0 : memory == NULL ? (uint64_t)model->gib << 30 : bytes_of(trim(memory));
	if (model == NULL)
		snprintf(complaint, room, "unknown GPU model \"%.40s\"; %s", trim(rest), example);
	else if (bytes == 0)
		snprintf(complaint, room, "\"%.40s\" is not a size of memory such as 8GiB", memory);
	else if (count < 1 || count > MAX_DEVICES - machine.devices)
		snprintf(complaint, room, "a machine has 1 to %d GPUs", MAX_DEVICES);
	else
		for (; count > 0; count--)
			add(model, bytes);
	return *complaint == '\0';
}

int simulate(const char *spec, char *complaint, unsigned room)
{
	for (const char *next = spec; next != NULL;) {
		char text[MAX_ENTRY];
		size_t length = strcspn(next, ",");
		if (length >= sizeof text) {
			snprintf(complaint, room, "an entry has %zu bytes", length);
			return 0;
		}
		memcpy(text, next, length);
		text[length] = '\0';
		if (!entry(trim(text), complaint, room))
			return 0;
		next = next[length] == ',' ? next + length + 1 : NULL;
	}
	return 1;
}
