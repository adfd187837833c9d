/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes of cuSOLVER's workspaces. NVIDIA documents none. These are rules for what the library of CUDA 13.0 answered
 * on an H200 for grids of shapes up to 4096 (tests_py/simulation/libraries/test_library_sizes.py has how many agree).
 * Sizes are in elements of the matrix unless their names say bytes.
 */
#ifndef CUSOLVER_SIZES_H
#define CUSOLVER_SIZES_H

#include <stdint.h>

static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int64_t tiles(int64_t n) { return (n + 31) / 32; }

static inline int64_t aligned(int64_t n) { return 32 * tiles(n); }

/* Cholesky, of the lower triangle or, as an upper one, in place. */
static inline int64_t potrf_bytes(int upper, int64_t n, int64_t element) {
	return 128 + (upper ? 32 * element : aligned(4 * tiles(n) * tiles(n)));
}

/* LU: a panel of at most 16 tiles, a power of two. */
static inline int64_t getrf_bytes(int64_t m, int64_t n) {
	int64_t count = tiles(m < n ? m : n), panel = 1;
	while (panel < count && panel < 16)
		panel *= 2;
	return 256 * (1 + panel + count);
}

static inline int64_t geqrf(int64_t n) { return (512 + most(n, 256)) * 1024; }

static inline int64_t orgqr(int64_t m, int64_t n, int64_t k) {
	return n < 128 ? 33024 + aligned(m * k) : 16640 + 128 * m + 256 * n;
}

static inline int64_t ormqr(int64_t m, int64_t n) { return 65792 + 256 * m + 512 * n + aligned(m * n) + aligned(n); }

static inline int64_t sytrf(int64_t n, int64_t least) { return most(least, (n < 4096 ? 64 : 128) * n + 64); }

static inline int64_t gesvd(int64_t n) {
	return 65760 + 256 * n + 3 * aligned(n * n) + 4 * aligned(n) + (n * n % 32 == 0 ? 32 : 0) - (n <= 32 ? 32 : 0);
}

/* Eigenvalues by divide and conquer: three or four matrices. */
static inline int64_t syevd(int64_t n) {
	int64_t own = n * n + 2 * n + 3, small = 65600 + 766 * n + 2 * n * n, large = 32960 + 125 * n + 3 * n * n;
	return own + most((small + (n > 32 ? 16 : -4)) / 32 * 32, aligned(large));
}

static inline int64_t syev_batched_bytes(int64_t n, int64_t count, int64_t element) {
	return count * (syevd(n) - 64) * element + (count * element + 255) / 256 * 256 + 64 * element - 128;
}

/* Jacobi's method, in blocks of 32 columns. */
static inline int64_t syevj(int64_t n) {
	int64_t count = tiles(n);
	return n <= 32 ? 2053 + n + n * n : 1024 + n + n * n + 4 * count * count + 1025 * count;
}

/* Tall matrices, and copies of wide ones, are factored into Q and R first. */
static inline int64_t gesvdj(int64_t m, int64_t n) {
	int64_t count = tiles(n);
	if (m < n)
		return geqrf(m) + aligned(m * n) + aligned(m) + 32;
	return m > n ? geqrf(n) + aligned(n) + 32 : 1024 + 2080 * count + aligned(2 * n * n + 4 * count * count + 1);
}

#endif
