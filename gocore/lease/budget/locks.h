/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of open files (OFD locks) on bytes, which may lie behind the end of the file. All copies of a descriptor, and
 * mappings, have its locks, in whichever process; the kernel drops them with the last. The open file that has a lock
 * does not see it, another one does. No call waits. What a lock guards is said in budget.h, guard/descriptors.c,
 * sim/cuda/vmm.c, sim/cuda/checkpoint.c and sim/runtime/nccl.c.
 */
#ifndef GPUCONF_LOCKS_H
#define GPUCONF_LOCKS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Another open file of the same inode, or -1. */
static inline int open_again(int descriptor) {
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* Returns 0, with errno, if another open file has a lock, or the kernel refuses. */
static inline int set_lock(int file, short type, int64_t byte) {
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(file, F_OFD_SETLK, &lock) == 0;
}
static inline int lock_byte(int file, int64_t byte) { return set_lock(file, F_WRLCK, byte); }
static inline int share_byte(int file, int64_t byte) { return set_lock(file, F_RDLCK, byte); }
static inline void unlock_byte(int file, int64_t byte) { set_lock(file, F_UNLCK, byte); }

/* The first byte of a range that another open file has a lock on; UNLOCKED if there is none, UNSEEN if the kernel does
 * not say. */
enum { UNLOCKED = -1, UNSEEN = -2 };
static inline int64_t locked_byte(int file, int64_t from, int64_t to) {
	struct flock look = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = to - from + 1};

	if (fcntl(file, F_OFD_GETLK, &look) != 0)
		return UNSEEN;
	if (look.l_type == F_UNLCK)
		return UNLOCKED;
	return look.l_start < from || look.l_start > to ? from : look.l_start;
}

#endif
