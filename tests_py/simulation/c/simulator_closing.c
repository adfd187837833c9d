/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that ask about the process's machine while another thread opens machines, makes each the process's, and
 * closes it, as a reset does beside a program's monitor. Compiled with the driver's sources under ThreadSanitizer,
 * which reports what is used after it is freed.
 *
 *     simulator_closing SECONDS THREADS
 */
#include "../../../gocore/machine/models/simulator.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int gpuconf_simulator_used(const char *uuid, uint64_t *total, uint64_t *used);
int gpuconf_simulator_held(int device, uint64_t *held);
void gpuconf_simulator_with_kernels(void);

static const char uuid[] = "GPU-01000000-0000-0000-0000-000000000000";
static int over;

static void *ask(void *argument) {
	uint64_t total, used, held;
	(void)argument;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		(void)gpuconf_simulator_used(uuid, &total, &used);
		(void)gpuconf_simulator_held(0, &held);
		gpuconf_simulator_with_kernels();
	}
	return NULL;
}

int main(int count, char **arguments) {
	if (count != 3)
		return 2;
	time_t until = time(NULL) + atoi(arguments[1]);
	int threads = atoi(arguments[2]);
	const struct gpuconf_simulator *simulator = gpuconf_simulator(GPUCONF_SIMULATOR_ABI);
	struct simulator_card none; /* the addresses of cards are not where this sanitizer can have them */
	struct simulator_options options = {.lenient = 1, .version = 12040, .of_process = 1};
	char complaint[512];
	pthread_t *all = calloc((size_t)threads, sizeof *all);
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, ask, NULL);
	while (time(NULL) < until) {
		struct machine *machine = simulator->open(&none, 0, &options, complaint, sizeof complaint);
		if (machine == NULL) {
			fprintf(stderr, "%s\n", complaint);
			return 1;
		}
		simulator->use(machine);
		simulator->close(machine);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	free(all);
	puts("done");
	return 0;
}
