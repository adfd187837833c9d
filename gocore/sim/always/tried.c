/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a cover, the machine's sockets and FIFOs have no process at their other end. What a program tries is written into
 * a file there, so that the answer can name it. The program sees what it would see without this.
 */
#include "always.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static time_t cover_began; /* 0: nothing is written */

void gpuconf_note_tried(void) {
	struct stat status;

	if (access(COVER_TRIED, W_OK) == 0 && stat(COVER_ENVIRONMENT, &status) == 0)
		cover_began = status.st_mtime;
}

/* One write of a whole line, so that lines of several processes do not mix. errno stays the program's. */
static void note(const char *path, size_t length) {
	char line[2 * 4096] = "";
	int before = errno, file = (int)syscall(SYS_openat, AT_FDCWD, COVER_TRIED, O_WRONLY | O_APPEND | O_CLOEXEC);
	ssize_t written = 0;

	if (file >= 0) {
		size_t start = *path != '/' && getcwd(line, 4095) != NULL ? strlen(strcat(line, "/")) : 0;
		length = strnlen(path, length < 4095 ? length : 4095);
		memcpy(line + start, path, length);
		line[start + length] = '\n';
		written = write(file, line, start + length + 1);
		close(file);
	}
	(void)written; /* else the answer lacks it */
	errno = before;
}

/* Only sockets with a path, and only errors that mean that no process listens there. */
EXPORTED int connect(int socket, const struct sockaddr *address, socklen_t length) {
	static __typeof__(&connect) real;
	const struct sockaddr_un *one = (const void *)address;
	const size_t before = offsetof(struct sockaddr_un, sun_path);

	if (real == NULL)
		real = (__typeof__(&connect))dlsym(RTLD_NEXT, "connect");
	int result = real(socket, address, length);
	int refused = result != 0 && (errno == ENOENT || errno == ECONNREFUSED || errno == EACCES || errno == EPERM);
	if (refused && cover_began != 0 && length > before && one->sun_family == AF_UNIX && one->sun_path[0] != 0)
		note(one->sun_path, length - before);
	return result;
}

/* A FIFO that is older than the cover. */
static int is_deserted(int folder, const char *path) {
	struct stat status;
	int before = errno, deserted = cover_began != 0 && fstatat(folder, path, &status, 0) == 0 &&
	                               S_ISFIFO(status.st_mode) && status.st_ctime < cover_began &&
	                               strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0;

	errno = before;
	return deserted;
}

#define OPENS(name, folder, declared, given) \
	EXPORTED int name(declared const char *path, int flags, ...) { \
		static int (*real)(declared const char *, int, ...); \
		va_list rest; \
		va_start(rest, flags); \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
		va_end(rest); \
		if (real == NULL) \
			real = (__typeof__(real))dlsym(RTLD_NEXT, #name); \
		int waits = (flags & O_NONBLOCK) == 0 && (flags & O_ACCMODE) != O_RDWR; \
		if (waits && is_deserted(folder, path)) \
			note(path, strlen(path)); \
		int file = real(given path, flags, mode); \
		if (file < 0 && !waits && is_deserted(folder, path)) \
			note(path, strlen(path)); \
		return file; \
	}
#define COMMA ,

OPENS(open, AT_FDCWD, , )
OPENS(open64, AT_FDCWD, , )
OPENS(openat, folder, int folder COMMA, folder COMMA)
OPENS(openat64, folder, int folder COMMA, folder COMMA)
