/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private entry of the simulator's libcuda.so.1: machines that a program opens itself, as gpuconf's core does
 * (gocore/machine/cuda).
 *
 * CUDA's functions have no argument that says which machine they are about. So a machine is bound to the calling thread
 * for the time of a call: with bind, or by use for all threads that have bound none.
 */
#ifndef GPUCONF_SIMULATOR_H
#define GPUCONF_SIMULATOR_H

#include <stddef.h>
#include <stdint.h>

/* A change of a structure below changes this number: a library of another build is refused, not misread. */
#define GPUCONF_SIMULATOR_ABI 5

/* The variable that names the file of the cards that the processes of a job share. Ignored in a program with rights
 * that its caller lacks. */
#define SHARED_CARDS "GPUCONF_SIMULATED_CARDS"

struct machine;

/* What a card lacks, for tests. */
enum simulator_lack { LACKS_VMM = 1, LACKS_MEMOPS = 2, LACKS_MANAGED = 4, LACKS_OVERSUBSCRIPTION = 8 };

/* One GPU: a card of a specification (gocore/machine/models/spec.h). Bytes are bytes, not MiB. */
struct simulator_card {
	int model; /* 1 + its place in the table of gocore/machine/models; 0, in the simulator alone: none of these, but as
	              an H100 */
	int slot;  /* of its machine, from which its bus and its UUID follow */
	uint64_t memory, used_by_others;
	unsigned profile; /* of enum gpuconf_profile */
	unsigned lacks;   /* of enum simulator_lack */
};

struct simulator_options {
	/*
	 * Device memory is charged in units of 256 bytes, and memory that was freed stays readable until the machine
	 * closes: free bytes are predictable, and a stale view reads garbage. Otherwise memory is charged as NVIDIA's
	 * driver does, in pages of 2 MiB.
	 */
	int to_the_byte;
	int lenient; /* as FAKECUDA_LENIENT, and as the cards of GPUCONF_SIMULATE are; otherwise the mode for tests */
	int version; /* of CUDA, such as 12040; 0: as the environment says */
	const char *shared_cards; /* the path of the file that other processes have the same cards by; NULL: they are this
	                             machine's alone */
	int of_process; /* it is to be the process's: the one that gpuconf_simulator_keep has kept, if that has the same
	                   cards */
};

struct gpuconf_simulator {
	/* Returns NULL after a failure, with a sentence in complaint. The cards are copied. */
	struct machine *(*open)(const struct simulator_card *cards, int count, const struct simulator_options *options,
	    char *complaint, size_t room);
	/* Ends all work, and unmaps all memory. No thread may be in a call of this machine, or have it bound. */
	void (*close)(struct machine *machine);
	/* Makes a machine the calling thread's; NULL: none, which leaves the process's. Returns the one before. */
	struct machine *(*bind)(struct machine *machine);
	/* Makes a machine the process's; NULL: the one of the environment, which cuInit starts. */
	void (*use)(struct machine *machine);
	/* Sets the CUDA version of the process's own machine, before anything reads it. */
	void (*set_version)(int version);
};

/* Keeps the process's machine until the process ends. Called for a library that has started on it. */
void gpuconf_simulator_keep(void);

/* Returns NULL for another abi. */
const struct gpuconf_simulator *gpuconf_simulator(uint32_t abi);

#endif
