/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of NCCL's reductions: in the order of the ranks, so the result is the same each time. Halves are
 * summed as floats. */
#include "nccl.h"

#include <string.h>

enum type { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16, TYPES };

int nccl_size(int type) {
	static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	return type >= 0 && (size_t)type < sizeof bytes ? bytes[type] : 0;
}

int nccl_reducible(int type) { return type >= 0 && type < TYPES; }

static float of_bits(uint32_t bits) {
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint32_t to_bits(float value) {
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float of_bfloat16(uint16_t half) { return of_bits((uint32_t)half << 16); }

static uint16_t to_bfloat16(float value) {
	uint32_t bits = to_bits(value);
	if (value != value)
		return (uint16_t)((bits >> 16) | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float of_half(uint16_t half) {
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
	if (exponent == 0)
		return (sign != 0 ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
	return of_bits(sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13);
}

/* Rounds to the nearest, and to the even one of two. */
static uint16_t to_half(float value) {
	uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000;
	float size = of_bits(bits & 0x7fffffff);
	if (value != value)
		return (uint16_t)(sign | 0x7e00);
	if (size >= 65520.0f)
		return (uint16_t)(sign | 0x7c00);
	if (size < 0x1p-14f) /* the sum's fraction is the half's, rounded by the addition */
		return (uint16_t)(sign | (to_bits(size + 0.5f) - to_bits(0.5f)));
	bits &= 0x7fffffff;
	return (uint16_t)(sign | ((bits + 0xfff + (bits >> 13 & 1) - (112u << 23)) >> 13));
}

#define SAME(x) (x)
/* A chunk is reduced in parts that stay in the processor's cache. */
enum { PART = 1024 };

#define REDUCTION(name, stored, type, load, store, factor_of) \
	static void name(struct nccl_comm *comm, int op, const struct nccl_factor *own, char *out, size_t count) { \
		type sums[PART], factor = own->used ? factor_of(own) : (type)1; \
		for (size_t at = 0; at < count; at += PART) { \
			size_t many = count - at < PART ? count - at : PART; \
			for (int rank = 0; rank < comm->ranks; rank++) { \
				const stored *from = (const stored *)nccl_slot(comm, rank) + at; \
				for (size_t i = 0; i < many; i++) { \
					type value = load(from[i]); \
					if (own->used) \
						value = (type)(value * factor); \
					if (rank == 0) \
						sums[i] = value; \
					else if (op == NCCL_PRODUCT) \
						sums[i] = (type)(sums[i] * value); \
					else if (op == NCCL_MOST) \
						sums[i] = value > sums[i] || value != value ? value : sums[i]; \
					else if (op == NCCL_LEAST) \
						sums[i] = value < sums[i] || value != value ? value : sums[i]; \
					else \
						sums[i] = (type)(sums[i] + value); \
				} \
			} \
			for (size_t i = 0; i < many; i++) \
				((stored *)out)[at + i] = \
				    (stored)store(op == NCCL_AVERAGE ? (type)(sums[i] / (type)comm->ranks) : sums[i]); \
		} \
	}

/* A factor is of the operation's type: a value, or memory that is read when the sum is made. */
#define FACTOR(name, stored, type, load) \
	static type name(const struct nccl_factor *factor) { \
		stored value; \
		memcpy(&value, factor->on_card ? factor->address : factor->value, sizeof value); \
		return load(value); \
	}

#define NUMBERS(name, stored, type, load, store) \
	FACTOR(name##_factor, stored, type, load) \
	REDUCTION(name, stored, type, load, store, name##_factor)
NUMBERS(int8, int8_t, int8_t, SAME, SAME)
NUMBERS(uint8, uint8_t, uint8_t, SAME, SAME)
NUMBERS(int32, int32_t, int32_t, SAME, SAME)
NUMBERS(uint32, uint32_t, uint32_t, SAME, SAME)
NUMBERS(int64, int64_t, int64_t, SAME, SAME)
NUMBERS(uint64, uint64_t, uint64_t, SAME, SAME)
NUMBERS(halves, uint16_t, float, of_half, to_half)
NUMBERS(floats, float, float, SAME, SAME)
NUMBERS(doubles, double, double, SAME, SAME)
NUMBERS(bfloats, uint16_t, float, of_bfloat16, to_bfloat16)

void nccl_reduce(struct nccl_comm *comm, int type, int op, const struct nccl_factor *factor, char *out, size_t count) {
	static void (*const of_type[TYPES])(struct nccl_comm *, int, const struct nccl_factor *, char *, size_t) = {
	    int8, uint8, int32, uint32, int64, uint64, halves, floats, doubles, bfloats};
	of_type[type](comm, op, factor, out, count);
}
