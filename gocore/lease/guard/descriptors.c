/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory a file descriptor exports. Descriptors of different exports may be of one file (a device file), and pass
 * to other processes by sockets and forks. What stays with all copies of a descriptor is the locks of its open file:
 * the exporter locks a byte far behind the end of the file, whose number is that of the memory. The lock ends when the
 * last copy is closed, in whichever process.
 *
 * A lock is not seen from the open file that has it, so the file is opened a second time to look. Where that is not
 * possible (a file without a name), exports are not told apart: see docs/guard.md.
 */
#include "guard.h"

#include "../budget/locks.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST (INT64_C(1) << 48)
#define LAST ((INT64_C(1) << 62) - 1)
enum {
	COPIES = 256,
	MOST_FILES = 16
}; /* exports of one memory, each of which has a lock of its own; files to look through */

static struct file {
	dev_t device;
	ino_t number;
	int descriptor;
} files[MOST_FILES];
static int file_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int still(const struct file *file) {
	struct stat facts;

	return fstat(file->descriptor, &facts) == 0 && facts.st_dev == file->device && facts.st_ino == file->number;
}

/* Keeps one open file of each inode to look through; the program may close it. */
static int remember(int descriptor) {
	struct stat facts;
	int kept = 0;

	if (fstat(descriptor, &facts) != 0)
		return 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < file_count; i++)
		kept |= still(&files[i]) && files[i].device == facts.st_dev && files[i].number == facts.st_ino;
	if (!kept && file_count < MOST_FILES) {
		struct file one = {facts.st_dev, facts.st_ino, open_again(descriptor)};
		if ((kept = one.descriptor >= 0))
			files[file_count++] = one;
	}
	pthread_mutex_unlock(&lock);
	return kept;
}

uint64_t mark_descriptor(int descriptor, uint64_t id) {
	if (!remember(descriptor))
		return 0;
	while (id == 0) {
		if (getrandom(&id, sizeof id, 0) != sizeof id)
			return 0;
		id = id & (uint64_t)LAST & ~(uint64_t)(COPIES - 1);
		id = id < (uint64_t)FIRST ? 0 : id;
	}
	for (int copy = 0; copy < COPIES; copy++)
		if (lock_byte(descriptor, (int64_t)id + copy))
			return id;
	return 0;
}

/* The lock in a range that the descriptor's own file has: others have those that can be seen from it. */
static int64_t own_lock(int descriptor, int other, int64_t from, int64_t to) {
	int64_t found = from > to ? UNLOCKED : locked_byte(other, from, to), rest;

	if (found < 0 || locked_byte(descriptor, found, found) < 0)
		return found;
	rest = own_lock(descriptor, other, from, found - 1);
	return rest >= 0 ? rest : own_lock(descriptor, other, found + 1, to);
}

uint64_t id_of_descriptor(int descriptor) {
	int other = open_again(descriptor);

	if (other < 0)
		return 0;
	int64_t found = own_lock(descriptor, other, FIRST, LAST);
	close(other);
	return found < 0 ? 0 : (uint64_t)found & ~(uint64_t)(COPIES - 1);
}

int descriptor_lives(uint64_t id) {
	int lives = 0, all = 1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < file_count; i++) {
		all &= still(&files[i]);
		lives |= still(&files[i]) && locked_byte(files[i].descriptor, (int64_t)id, (int64_t)id + COPIES - 1) >= 0;
	}
	pthread_mutex_unlock(&lock);
	return lives || !all;
}

void forget_descriptors(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
}
