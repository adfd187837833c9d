/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of folders, with modes, times, holes and links. Sockets and FIFOs are left out: their copies would reach no
 * one. */
#include "cover.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static long long files, bytes; /* of all folders that were found to be small */

/* nftw's: another value than 0 ends the walk. */
static int count(const char *path, const struct stat *facts, int type, struct FTW *place) {
	(void)path, (void)type, (void)place;
	files++;
	bytes += S_ISREG(facts->st_mode) ? facts->st_blocks * 512LL : 0;
	return files > COPY_FILES_MOST || bytes > COPY_BYTES_MOST;
}

/* Whether copies of this folder, and of those of which it was said before, take seconds at most. */
bool copy_is_small(const char *folder) {
	long long before[2] = {files, bytes};
	bool small = nftw(folder, count, 32, FTW_PHYS) == 0;
	if (!small)
		files = before[0], bytes = before[1];
	return small;
}

static long long taken;

static int take(const char *path, const struct stat *facts, int type, struct FTW *place) {
	(void)path, (void)type, (void)place;
	taken += S_ISREG(facts->st_mode) ? facts->st_blocks * 512LL : 0;
	return 0;
}

/* How many bytes a folder takes beyond those of the folders that were found to be small. */
long long bytes_beyond_copies(const char *folder) {
	taken = 0;
	nftw(folder, take, 32, FTW_PHYS);
	return taken - bytes;
}

/* In the kernel; a file that has become shorter meanwhile is copied as far as it goes. */
static bool copy_part(int from, int to, off_t start, off_t end) {
	while (start < end) {
		ssize_t sent = sendfile(to, from, &start, (size_t)(end - start));
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return sent == 0; /* it has become shorter */
	}
	return true;
}

/* A clone shares the blocks (ioctl FICLONE, man 2 ioctl_ficlone). Where one file system refuses it, all further files
 * are copied: a cover has few file systems. Holes stay holes, since a sparse file may be larger than the memory. */
static bool copy_data(int from, int to, const struct stat *facts) {
	static bool no_clones;
	if (!no_clones && facts->st_size > 0) {
		if (ioctl(to, FICLONE, from) == 0)
			return true;
		no_clones = true;
	}
	if (facts->st_blocks * 512LL >= facts->st_size)
		return copy_part(from, to, 0, facts->st_size);
	if (ftruncate(to, facts->st_size) != 0)
		return false;
	for (off_t at = 0, end; (at = lseek(from, at, SEEK_DATA)) >= 0; at = end) {
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0 || lseek(to, at, SEEK_SET) < 0 || !copy_part(from, to, at, end))
			return false;
	}
	return true;
}

/* Copy the attributes of the user's own, as far as the file systems have them. */
static void copy_attributes(int from, int to) {
	char names[4096], value[4096];
	ssize_t length = flistxattr(from, names, sizeof names);
	for (char *name = names; length > 0 && name < names + length; name += strlen(name) + 1) {
		ssize_t size = strncmp(name, "user.", 5) == 0 ? fgetxattr(from, name, value, sizeof value) : -1;
		if (size >= 0)
			fsetxattr(to, name, value, (size_t)size, 0);
	}
}

/* What cannot be read is an empty file that cannot be read, either. */
bool copy_file(const char *from, const char *to) {
	struct stat facts, made;
	CLOSED_INT source = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (lstat(from, &facts) != 0 || !S_ISREG(facts.st_mode))
		return true; /* it has gone */
	CLOSED_INT target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, facts.st_mode & 0777);
	if (target < 0)
		return false;
	struct timespec times[2] = {facts.st_atim, facts.st_mtim};
	bool whole = source < 0 || copy_data(source, target, &facts);
	if (source >= 0)
		copy_attributes(source, target);
	whole = whole && fstat(target, &made) == 0;
	bool others = whole && (made.st_uid != facts.st_uid || made.st_gid != facts.st_gid);
	if (others && geteuid() == 0 && fchown(target, facts.st_uid, facts.st_gid) != 0)
		others = false; /* in a user namespace it may be no one's */
	if (whole && (others || made.st_mode != facts.st_mode))
		whole = fchmod(target, facts.st_mode & 07777) == 0;
	return whole && futimens(target, times) == 0;
}

/* The text of the link as it is, whether or not it leads anywhere. */
static bool copy_link(const char *from, const char *to, const struct stat *facts) {
	char target[PATH_MAX];
	ssize_t length = readlink(from, target, sizeof target - 1);
	if (length < 0)
		return true; /* it has gone */
	target[length] = 0;
	struct timespec times[2] = {facts->st_atim, facts->st_mtim};
	return symlink(target, to) == 0 && utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A file with several names, of which one is copied: the others become links of the copy. */
struct linked {
	struct linked *next;
	dev_t device;
	ino_t inode;
	char path[];
};

static bool copy_into(const char *from, const char *to, struct linked **links);
static struct stat left_out; /* a folder; without a number if there is none */

/* Sockets, FIFOs and devices are left out, and what has gone since the folder was read. */
static bool copy_entry(const char *from, const char *to, struct linked **links) {
	struct stat facts;
	if (lstat(from, &facts) != 0)
		return true; /* it has gone */
	if (S_ISDIR(facts.st_mode))
		return (facts.st_dev == left_out.st_dev && facts.st_ino == left_out.st_ino) || copy_into(from, to, links);
	if (S_ISLNK(facts.st_mode))
		return copy_link(from, to, &facts);
	if (!S_ISREG(facts.st_mode))
		return true;
	if (facts.st_nlink > 1) {
		for (struct linked *one = *links; one != NULL; one = one->next)
			if (one->device == facts.st_dev && one->inode == facts.st_ino)
				return link(one->path, to) == 0;
		struct linked *one = malloc(sizeof *one + strlen(to) + 1);
		if (one == NULL)
			return false;
		*one = (struct linked){*links, facts.st_dev, facts.st_ino};
		strcpy(one->path, to);
		*links = one;
	}
	return copy_file(from, to);
}

/* The mode and the times come last: a folder that cannot be written to could not be filled, and filling it changes
 * its time. */
static bool copy_into(const char *from, const char *to, struct linked **links) {
	struct stat facts;
	if (stat(from, &facts) != 0 || (mkdir(to, 0700) != 0 && errno != EEXIST))
		return false;
	bool whole = true;
	CLOSED_DIR *folder = opendir(from);
	for (const char *name; whole && (name = next_entry(folder)) != NULL;) {
		char source[PATH_MAX], target[PATH_MAX];
		if (snprintf(source, sizeof source, "%s/%s", from, name) >= (int)sizeof source ||
		    snprintf(target, sizeof target, "%s/%s", to, name) >= (int)sizeof target) {
			errno = ENAMETOOLONG;
			whole = false;
		} else {
			whole = copy_entry(source, target, links);
		}
	}
	struct timespec times[2] = {facts.st_atim, facts.st_mtim};
	if (geteuid() == 0 && chown(to, facts.st_uid, facts.st_gid) != 0 && errno != EINVAL)
		return false;
	return whole && chmod(to, facts.st_mode & 07777) == 0 && utimensat(AT_FDCWD, to, times, 0) == 0;
}

/* errno is that of the copy, whatever freeing the list does to it. */
bool copy_folder(const char *from, const char *to, const char *without) {
	struct linked *links = NULL;
	if (without == NULL || stat(without, &left_out) != 0)
		left_out.st_ino = 0;
	bool whole = copy_into(from, to, &links);
	int error = errno;
	while (links != NULL) {
		struct linked *next = links->next;
		free(links);
		links = next;
	}
	errno = error;
	return whole;
}

/* By descriptors: a path may be longer than the kernel takes, and then nothing below would be removed. */
static void empty_folder(int parent, const char *name) {
	fchmodat(parent, name, 0700, 0); /* it must be writable before anything in it can be removed */
	int file = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLOSED_DIR *folder = file >= 0 ? fdopendir(file) : NULL;
	if (folder == NULL && file >= 0)
		close(file);
	for (const char *entry; (entry = next_entry(folder)) != NULL;) {
		if (unlinkat(dirfd(folder), entry, 0) == 0)
			continue;
		empty_folder(dirfd(folder), entry);
		unlinkat(dirfd(folder), entry, AT_REMOVEDIR);
	}
}

void remove_folder(const char *folder) {
	empty_folder(AT_FDCWD, folder);
	rmdir(folder);
}
