/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads that launch what has no effect, each its own kernels, each for the first time. Compiled with the count of
 * such launches (gocore/sim/runtime/unmarked.c) under ThreadSanitizer. Each name must have been counted once.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int computes(const char *function);
int gpuconf_runtime_unmarked_name(unsigned index, char *name, size_t room, uint64_t *count);

enum { EACH = 1000 };
static char names[2 * EACH][16];

static void *launch(void *first) {
	for (int i = 0; i < EACH; i++)
		computes(((char (*)[16])first)[i]);
	return NULL;
}

int main(void) {
	pthread_t threads[2];
	char name[16];
	uint64_t count;
	unsigned found = 0;
	for (int i = 0; i < 2 * EACH; i++)
		snprintf(names[i], sizeof names[i], "kernel %d", i);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, launch, names[i * EACH]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	while (gpuconf_runtime_unmarked_name(found, name, sizeof name, &count) == 0) {
		if (count != 1) {
			printf("%s was counted %d times\n", name, (int)count);
			return 1;
		}
		found++;
	}
	printf("%u names\n", found);
	return 0;
}
