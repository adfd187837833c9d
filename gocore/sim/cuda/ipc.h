/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the processes of a job (ipc.c, ipcevents.c): a handle is the name of a file in the job's private folder,
 * which is the one of the shared cards. A name has 128 random bits. Nothing is found without it, and other users cannot
 * enter the folder.
 */
#ifndef IPC_H
#define IPC_H

#include "driver.h"

#define NAME_BYTES 16

/* As CUipcMemHandle and CUipcEventHandle. */
struct ipc_handle {
	char kind[8];
	unsigned char name[NAME_BYTES];
	unsigned char zero[40];
};

extern const char memory_kind[8], event_kind[8];
int is_handle(const struct ipc_handle *handle, const char kind[8]);

/* Of the machine's job. Each returns a descriptor, or -1; the lock is held. */
int make_job_file(struct ipc_handle *handle, const char kind[8]);
int open_job_file(const struct ipc_handle *handle);
void remove_job_file(const struct ipc_handle *handle);
uint64_t random_number(void); /* 0 if the host has none */

#endif
