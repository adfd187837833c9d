/* SPDX-License-Identifier: Apache-2.0 */
/* The files by which the processes of a job find what another one has exported (ipc.h). */
#include "ipc.h"

#include "../../lease/budget/budget.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

const char memory_kind[8] = "gpuconfM", event_kind[8] = "gpuconfE";

static int fill_random(void *out, size_t bytes) { return getrandom(out, bytes, 0) == (ssize_t)bytes; }

uint64_t random_number(void) {
	uint64_t number;
	return fill_random(&number, sizeof number) ? number : 0;
}

int is_handle(const struct ipc_handle *handle, const char kind[8]) {
	static const unsigned char zero[sizeof handle->zero];
	return memcmp(handle->kind, kind, 8) == 0 && memcmp(handle->zero, zero, sizeof zero) == 0;
}

/* The folder was checked when the shared cards were opened: it is this user's alone. */
static int open_folder(void) {
	char folder[sizeof m->shared->path];
	snprintf(folder, sizeof folder, "%s", m->shared->path);
	char *slash = strrchr(folder, '/');
	if (slash == NULL)
		return -1;
	*slash = 0;
	return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static void path_of(const struct ipc_handle *handle, char path[48]) {
	int at = snprintf(path, 48, "ipc-");
	for (int i = 0; i < NAME_BYTES; i++)
		at += snprintf(path + at, 48 - (size_t)at, "%02x", handle->name[i]);
}

static int open_named(const struct ipc_handle *handle, int flags) {
	char path[48];
	int folder = m->shared != NULL ? open_folder() : -1, file;
	if (folder < 0)
		return -1;
	path_of(handle, path);
	file = openat(folder, path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
	close(folder);
	return file;
}

int make_job_file(struct ipc_handle *handle, const char kind[8]) {
	*handle = (struct ipc_handle){0};
	memcpy(handle->kind, kind, sizeof handle->kind);
	return fill_random(handle->name, sizeof handle->name) ? open_named(handle, O_CREAT | O_EXCL) : -1;
}

int open_job_file(const struct ipc_handle *handle) { return open_named(handle, 0); }

void remove_job_file(const struct ipc_handle *handle) {
	char path[48];
	int folder = m->shared != NULL ? open_folder() : -1;
	if (folder < 0)
		return;
	path_of(handle, path);
	unlinkat(folder, path, 0);
	close(folder);
}
