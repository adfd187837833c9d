/* Loops over the C symbols, so that only these are timed. Each returns ns per call; n calls. */
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

typedef void *(*malloc_fn)(size_t, int, void *);
typedef void (*free_fn)(void *, size_t, int, void *);
typedef int (*empty_fn)(int);

static double now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

double time_empty(empty_fn empty, int n) {
	double begin = now_ns();
	for (int i = 0; i < n; i++)
		empty(i);
	return (now_ns() - begin) / n;
}

/* A hot pair: one block is repeatedly allocated and freed. */
double time_pair(malloc_fn take, free_fn give, size_t size, int n) {
	double begin = now_ns();
	for (int i = 0; i < n; i++)
		give(take(size, 0, NULL), size, 0, NULL);
	return (now_ns() - begin) / (2.0 * n);
}

/* Churn: random blocks of 512 B to 8 MiB are replaced. */
double time_churn(malloc_fn take, free_fn give, int live, int n) {
	void **blocks = calloc(live, sizeof *blocks);
	unsigned long long x = 88172645463325252ULL;
	double begin = now_ns();
	for (int i = 0; i < n; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		void **slot = &blocks[x % live];
		if (*slot)
			give(*slot, 0, 0, NULL);
		*slot = take((size_t)512 << (x >> 32) % 15, 0, NULL);
	}
	double each = (now_ns() - begin) / (2.0 * n);
	for (int i = 0; i < live; i++)
		if (blocks[i])
			give(blocks[i], 0, 0, NULL);
	free(blocks);
	return each;
}
