/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate file: whether a job's programs may call the driver. A job that takes turns has one beside its budget.
 * python/gpuconf/jobs/gate.py closes and opens it, by a module that pybind/build/generate_tables.py writes from this
 * header.
 *
 *     struct gate
 *     struct gate_thread[GATE_THREADS]  at GATE_HEADER_BYTES: one for each thread that calls the driver
 *
 * A thread counts its call in its own word and then reads whether the gate is closed. Who closes it first writes
 * closed, then issues membarrier(), and then reads the words of all threads. So either the thread sees that the gate is
 * closed, or its call is seen: without a barrier of its own, which would cost more than all the rest.
 *
 * A word is of the process that it names, and free if it names none. The words of a process that has ended are freed
 * by who closes the gate: the pid alone may be another process's by then, so its start and its namespace count, too.
 */
#ifndef GPUCONF_GATE_H
#define GPUCONF_GATE_H

#include <stdint.h>

#define GATE_MAGIC "GCGATE-1"
#define GATE_HEADER_BYTES 4096
#define GATE_THREADS 4096
#define GATE_THREAD_BYTES 64 /* a cache line: threads do not write each other's */

struct gate {
	char magic[8];
	uint32_t closed; /* 1: calls wait, and sleep on this word */
	uint32_t wanted; /* 1: a call waits, or the program was resumed; who closes the gate sleeps on it */
	uint32_t high;   /* threads from here on were never used */
	uint32_t full;   /* a thread found no word, so its calls are not seen */
	uint32_t deaf;   /* a process could not register for membarrier(), so its calls are not seen in time */
	uint32_t held;   /* 1: the program was parked by hand and stays so until this is 0 */
	uint32_t trims;  /* how often idle memory was asked back, and 1: processes sleep on it. 0: it never is */
	uint32_t said;   /* how often the agent has said in the ledger how it stands, modulo 2^32 */
};

struct gate_thread {
	/* Calls that it is in: 0, 1, or more if a signal's handler calls the driver. And calls so far, modulo 2^32: whether
	 * it has called since the last look. One addition counts in both. */
	uint32_t calls, made;
	uint64_t start; /* of the process, in clock ticks since boot */
	uint64_t space; /* its PID namespace, by inode */
	uint32_t pid;
};

_Static_assert(sizeof(struct gate) <= GATE_HEADER_BYTES, "the header has room");
_Static_assert(sizeof(struct gate_thread) <= GATE_THREAD_BYTES, "a thread has room");

#endif
