/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgpuconf-mapped.so, for programs in a mirror: a path that begins with the machine's working folder, /tmp or
 * /dev/shm means the mirror's. GPUCONF_MIRROR has the folder of the mirror, and the working folder. Landlock refuses
 * what a program does without libc, so that nothing is lost if a function is missing here: the program gets "permission
 * denied".
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#define PUBLIC __attribute__((visibility("default")))

static struct {
	char from[PATH_MAX], to[PATH_MAX];
} pairs[3];
static char root[PATH_MAX];

__attribute__((constructor)) static void begin(void) {
	const char *text = getenv("GPUCONF_MIRROR");
	const char *colon = text != NULL ? strchr(text, ':') : NULL;
	if (colon == NULL || colon - text > 200)
		return;
	snprintf(pairs[0].from, PATH_MAX, "%s", colon + 1);
	snprintf(pairs[0].to, PATH_MAX, "%.*s/layers/0/files%s", (int)(colon - text), text, colon + 1);
	snprintf(pairs[1].from, PATH_MAX, "/dev/shm");
	snprintf(pairs[1].to, PATH_MAX, "%.*s/layers/2/files", (int)(colon - text), text);
	snprintf(pairs[2].from, PATH_MAX, "/tmp");
	snprintf(pairs[2].to, PATH_MAX, "%.*s/layers/1/files", (int)(colon - text), text);
	snprintf(root, sizeof root, "%.*s", (int)(colon - text), text);
}

static int is_at(const char *path, const char *folder) {
	size_t length = strlen(folder);
	return length > 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* A path of the program as a path of the mirror. In /tmp the machine's files can be read: what exists there only is
 * meant itself. */
static const char *map(const char *path, char *space) {
	struct stat facts;
	if (path == NULL || *path != '/' || root[0] == 0 || is_at(path, root))
		return path;
	for (int i = 0; i < 3; i++) {
		if (!is_at(path, pairs[i].from))
			continue;
		if (snprintf(space, PATH_MAX, "%s%s", pairs[i].to, path + strlen(pairs[i].from)) >= PATH_MAX)
			return path;
		if (i == 2 && strcmp(path, "/tmp") != 0 &&
		    syscall(SYS_newfstatat, AT_FDCWD, space, &facts, AT_SYMLINK_NOFOLLOW) != 0 &&
		    syscall(SYS_newfstatat, AT_FDCWD, path, &facts, AT_SYMLINK_NOFOLLOW) == 0)
			return path;
		return space;
	}
	return path;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A function with one path, whose place among the arguments is where the macro has it. */
#define MAPPED(type, name, parameters, arguments) \
	PUBLIC type name parameters { \
		char space[PATH_MAX]; \
		__typeof__(&name) next = NEXT(name); \
		path = map(path, space); \
		return next arguments; \
	}
/* One with two paths. */
#define MAPPED_TWICE(type, name, parameters, arguments) \
	PUBLIC type name parameters { \
		char space[PATH_MAX], second[PATH_MAX]; \
		__typeof__(&name) next = NEXT(name); \
		path = map(path, space); \
		to = map(to, second); \
		return next arguments; \
	}
/* One whose mode is there if the flags say so. */
#define OPENS(name, parameters, arguments) \
	PUBLIC int name parameters { \
		char space[PATH_MAX]; \
		va_list list; \
		va_start(list, flags); \
		mode_t mode = va_arg(list, mode_t); \
		va_end(list); \
		path = map(path, space); \
		return NEXT(name) arguments; \
	}

OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
MAPPED(int, creat, (const char *path, mode_t mode), (path, mode))
MAPPED(int, creat64, (const char *path, mode_t mode), (path, mode))
MAPPED(FILE *, fopen, (const char *path, const char *mode), (path, mode))
MAPPED(FILE *, fopen64, (const char *path, const char *mode), (path, mode))
MAPPED(FILE *, freopen, (const char *path, const char *mode, FILE *file), (path, mode, file))
MAPPED(FILE *, freopen64, (const char *path, const char *mode, FILE *file), (path, mode, file))
MAPPED(DIR *, opendir, (const char *path), (path))
MAPPED(int, chdir, (const char *path), (path))
MAPPED(int, access, (const char *path, int mode), (path, mode))
MAPPED(int, faccessat, (int folder, const char *path, int mode, int flags), (folder, path, mode, flags))
MAPPED(int, mkdir, (const char *path, mode_t mode), (path, mode))
MAPPED(int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
MAPPED(int, rmdir, (const char *path), (path))
MAPPED(int, unlink, (const char *path), (path))
MAPPED(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
MAPPED(int, remove, (const char *path), (path))
MAPPED_TWICE(int, rename, (const char *path, const char *to), (path, to))
MAPPED_TWICE(int, renameat, (int from, const char *path, int folder, const char *to), (from, path, folder, to))
MAPPED_TWICE(int, renameat2, (int from, const char *path, int folder, const char *to, unsigned flags),
    (from, path, folder, to, flags))
MAPPED_TWICE(int, link, (const char *path, const char *to), (path, to))
MAPPED_TWICE(
    int, linkat, (int from, const char *path, int folder, const char *to, int flags), (from, path, folder, to, flags))
MAPPED(int, symlink, (const char *target, const char *path), (target, path))
MAPPED(int, symlinkat, (const char *target, int folder, const char *path), (target, folder, path))
MAPPED(ssize_t, readlink, (const char *path, char *buffer, size_t size), (path, buffer, size))
MAPPED(ssize_t, readlinkat, (int folder, const char *path, char *buffer, size_t size), (folder, path, buffer, size))
MAPPED(int, truncate, (const char *path, off_t size), (path, size))
MAPPED(int, truncate64, (const char *path, off64_t size), (path, size))
MAPPED(int, chmod, (const char *path, mode_t mode), (path, mode))
MAPPED(int, fchmodat, (int folder, const char *path, mode_t mode, int flags), (folder, path, mode, flags))
MAPPED(int, chown, (const char *path, uid_t user, gid_t group), (path, user, group))
MAPPED(int, lchown, (const char *path, uid_t user, gid_t group), (path, user, group))
MAPPED(int, fchownat, (int folder, const char *path, uid_t user, gid_t group, int flags),
    (folder, path, user, group, flags))
MAPPED(int, utime, (const char *path, const struct utimbuf *times), (path, times))
MAPPED(int, utimes, (const char *path, const struct timeval times[2]), (path, times))
MAPPED(int, lutimes, (const char *path, const struct timeval times[2]), (path, times))
MAPPED(int, utimensat, (int folder, const char *path, const struct timespec times[2], int flags),
    (folder, path, times, flags))
MAPPED(int, mkfifo, (const char *path, mode_t mode), (path, mode))
MAPPED(int, statfs, (const char *path, struct statfs *facts), (path, facts))
MAPPED(int, statvfs, (const char *path, struct statvfs *facts), (path, facts))
MAPPED(int, statvfs64, (const char *path, struct statvfs64 *facts), (path, facts))
MAPPED(int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *facts),
    (folder, path, flags, mask, facts))
MAPPED(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
MAPPED(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
MAPPED(ssize_t, listxattr, (const char *path, char *names, size_t size), (path, names, size))
MAPPED(ssize_t, llistxattr, (const char *path, char *names, size_t size), (path, names, size))
MAPPED(int, setxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
    (path, name, value, size, flags))
MAPPED(int, lsetxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
    (path, name, value, size, flags))
MAPPED(int, removexattr, (const char *path, const char *name), (path, name))
MAPPED(int, lremovexattr, (const char *path, const char *name), (path, name))
MAPPED(char *, realpath, (const char *path, char *resolved), (path, resolved))

MAPPED(int, stat, (const char *path, struct stat *facts), (path, facts))
MAPPED(int, lstat, (const char *path, struct stat *facts), (path, facts))
MAPPED(int, stat64, (const char *path, struct stat64 *facts), (path, facts))
MAPPED(int, lstat64, (const char *path, struct stat64 *facts), (path, facts))
MAPPED(int, fstatat, (int folder, const char *path, struct stat *facts, int flags), (folder, path, facts, flags))
MAPPED(int, fstatat64, (int folder, const char *path, struct stat64 *facts, int flags), (folder, path, facts, flags))

/* Before glibc 2.33, and in what was built for it, stat has these names. */
#define STATS_OF_VERSION(name, type) \
	PUBLIC int name(int version, const char *path, type *facts); \
	MAPPED(int, name, (int version, const char *path, type *facts), (version, path, facts))
STATS_OF_VERSION(__xstat, struct stat)
STATS_OF_VERSION(__lxstat, struct stat)
STATS_OF_VERSION(__xstat64, struct stat64)
STATS_OF_VERSION(__lxstat64, struct stat64)

/* Sockets with a path. */
#define SOCKETS(name) \
	PUBLIC int name(int socket, const struct sockaddr *address, socklen_t size) { \
		char space[PATH_MAX]; \
		struct sockaddr_un own = {.sun_family = AF_UNIX}; \
		const struct sockaddr_un *given = (const struct sockaddr_un *)address; \
		int (*next)(int, const struct sockaddr *, socklen_t) = \
		    (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, #name); \
		if (size > offsetof(struct sockaddr_un, sun_path) && size <= sizeof own && given->sun_family == AF_UNIX && \
		    given->sun_path[0] == '/') { \
			char name_of[sizeof own.sun_path + 1] = ""; \
			memcpy(name_of, given->sun_path, size - offsetof(struct sockaddr_un, sun_path)); \
			const char *mapped = map(name_of, space); \
			if (mapped != name_of && strlen(mapped) < sizeof own.sun_path) { \
				strcpy(own.sun_path, mapped); \
				return next(socket, (const struct sockaddr *)&own, sizeof own); \
			} \
		} \
		return next(socket, address, size); \
	}
SOCKETS(bind)
SOCKETS(connect)

/* Shared memory and semaphores, whose functions call the system without a way between. */
static const char *shared_path(const char *name, const char *before, char *space) {
	while (*name == '/')
		name++;
	snprintf(space, PATH_MAX, "%s/%s%s", pairs[1].to, before, name);
	return space;
}

PUBLIC int shm_open(const char *name, int flags, mode_t mode) {
	char space[PATH_MAX];
	return root[0] != 0 ? open(shared_path(name, "", space), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mode)
	                    : NEXT(shm_open)(name, flags, mode);
}

PUBLIC int shm_unlink(const char *name) {
	char space[PATH_MAX];
	return root[0] != 0 ? unlink(shared_path(name, "", space)) : NEXT(shm_unlink)(name);
}

/* A semaphore appears under its name when it has its value, as glibc's does: a link takes the place of a file that is
 * ready. */
static int new_semaphore(const char *path, mode_t mode, unsigned value) {
	char fresh[PATH_MAX];
	sem_t semaphore;
	snprintf(fresh, sizeof fresh, "%s/XXXXXX", pairs[1].to);
	int file = mkstemp(fresh);
	if (file < 0)
		return -1;
	int done = sem_init(&semaphore, 1, value) == 0 && write(file, &semaphore, sizeof semaphore) == sizeof semaphore &&
	           fchmod(file, mode) == 0 && link(fresh, path) == 0;
	int error = errno;
	unlink(fresh);
	if (!done)
		close(file);
	errno = error;
	return done ? file : -1;
}

PUBLIC sem_t *sem_open(const char *name, int flags, ...) {
	char space[PATH_MAX];
	va_list list;
	va_start(list, flags);
	mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
	unsigned value = flags & O_CREAT ? va_arg(list, unsigned) : 0;
	va_end(list);
	if (root[0] == 0)
		return NEXT(sem_open)(name, flags, mode, value);
	const char *path = shared_path(name, "sem.", space);
	int file = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (file < 0 && flags & O_CREAT) {
		file = new_semaphore(path, mode, value);
		if (file < 0 && errno == EEXIST && !(flags & O_EXCL))
			file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	}
	if (file < 0)
		return SEM_FAILED;
	void *memory = mmap(NULL, sizeof(sem_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	return memory == MAP_FAILED ? SEM_FAILED : memory;
}

PUBLIC int sem_close(sem_t *semaphore) {
	return root[0] != 0 ? munmap(semaphore, sizeof *semaphore) : NEXT(sem_close)(semaphore);
}

PUBLIC int sem_unlink(const char *name) {
	char space[PATH_MAX];
	return root[0] != 0 ? unlink(shared_path(name, "sem.", space)) : NEXT(sem_unlink)(name);
}
