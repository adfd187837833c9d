/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <stdio.h>
#include <string.h>

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
