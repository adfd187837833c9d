/* A C library that uses gpuconf's allocator without Python: test_c_abi.py compiles it and calls it through ctypes. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuconf.h"

static void *(*take)(size_t, int, void *);
static void (*give)(void *, size_t, int, void *);
static const char *(*why)(void);

/* Binds the functions of the library that Python has loaded. Returns its ABI version, or -1. */
int client_open(const char *path) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*version)(void);

	if (library == NULL)
		return -1;
	*(void **)&version = dlsym(library, "gpuconf_abi_version");
	*(void **)&take = dlsym(library, "gpuconf_malloc");
	*(void **)&give = dlsym(library, "gpuconf_free");
	*(void **)&why = dlsym(library, "gpuconf_last_error");
	return version && take && give && why ? version() : -1;
}

enum { LIVE = 8 };

struct job {
	int number, rounds, devices;
	int failures;
};

/* Keeps some blocks, each filled with its own pattern, which no other thread may change. Simulated memory is host
 * memory. */
static void *hammer(void *argument) {
	struct job *job = argument;
	unsigned char *blocks[LIVE] = {NULL};
	size_t sizes[LIVE] = {0};
	unsigned random = 12345u + (unsigned)job->number;

	for (int round = 0; round < job->rounds; round++) {
		int slot = round % LIVE;
		unsigned char pattern = (unsigned char)(job->number * LIVE + slot + 1);

		if (blocks[slot] != NULL) {
			for (size_t i = 0; i < sizes[slot]; i++)
				if (blocks[slot][i] != pattern) {
					job->failures++;
					break;
				}
			give(blocks[slot], sizes[slot], 0, NULL);
			if (why()[0] != 0)
				job->failures++;
		}
		random = random * 1664525u + 1013904223u;
		sizes[slot] = 1 + (random >> 16) % 5000;
		blocks[slot] = take(sizes[slot], (int)(random >> 8) % job->devices, NULL);
		if (blocks[slot] == NULL)
			job->failures++;
		else
			memset(blocks[slot], pattern, sizes[slot]);
	}
	for (int slot = 0; slot < LIVE; slot++)
		give(blocks[slot], sizes[slot], 0, NULL);
	return NULL;
}

/* Runs this many threads with small stacks. Returns the number of failures. */
int client_hammer(int threads, int rounds, int devices) {
	pthread_t *ids = calloc((size_t)threads, sizeof *ids);
	struct job *jobs = calloc((size_t)threads, sizeof *jobs);
	pthread_attr_t attributes;
	int failures = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	for (int i = 0; i < threads; i++) {
		jobs[i] = (struct job){i, rounds, devices, 0};
		if (pthread_create(&ids[i], &attributes, hammer, &jobs[i]) != 0)
			abort();
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		failures += jobs[i].failures;
	}
	pthread_attr_destroy(&attributes);
	free(ids);
	free(jobs);
	return failures;
}

static pthread_key_t at_end;
static int ends;

static void free_at_end(void *block) {
	give(block, 0, 0, NULL);
	give(NULL, 0, 0, NULL);
	ends += why()[0] == 0;
	give((void *)0x1234, 0, 0, NULL); /* sets a text again, after the library has freed the last one */
	ends += why()[0] != 0;
}

static void *leave_an_error(void *block) {
	if (block != NULL)
		pthread_setspecific(at_end, block);
	give((void *)0x1234, 0, 0, NULL);
	return (void *)(intptr_t)(why()[0] != 0);
}

/*
 * Threads that end with an error's text; each frees a block in a destructor, which runs after gpuconf's. Returns the
 * checks that held.
 */
int client_thread_ends(int threads) {
	if (at_end == 0 && pthread_key_create(&at_end, free_at_end) != 0)
		abort();
	ends = 0;
	for (int i = 0; i < threads; i++) {
		pthread_t id;

		if (pthread_create(&id, NULL, leave_an_error, take(100, 0, NULL)) != 0)
			abort();
		pthread_join(id, NULL);
	}
	return ends;
}

/* How many bytes of host memory remain after this many threads have ended with an error's text. */
long long client_text_leak(int threads) {
	long long before = (long long)mallinfo2().uordblks;

	for (int i = 0; i < threads; i++) {
		pthread_t id;
		void *told;

		if (pthread_create(&id, NULL, leave_an_error, NULL) != 0)
			abort();
		pthread_join(id, &told);
		if (told == NULL)
			return -1;
	}
	return (long long)mallinfo2().uordblks - before;
}

static void *copy_error(void *text) {
	snprintf(text, 4096, "%s", why());
	return NULL;
}

/* Another thread's last error. */
void client_error_elsewhere(char *text) {
	pthread_t id;

	if (pthread_create(&id, NULL, copy_error, text) != 0)
		abort();
	pthread_join(id, NULL);
}

static void *free_block(void *block) {
	give(block, 0, 0, NULL);
	return NULL;
}

/* Frees a block in another thread. */
void client_free_elsewhere(void *block) {
	pthread_t id;

	if (pthread_create(&id, NULL, free_block, block) != 0)
		abort();
	pthread_join(id, NULL);
}
