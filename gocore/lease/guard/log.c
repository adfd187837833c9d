/* SPDX-License-Identifier: Apache-2.0 */
/* The log beside the budget: what the guard could not do, a line each. Programs see nothing of it; `gpuconf run`
 * reports it at the end. */
#include "guard.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_LOG (1 << 20)

static void write_note(const char *format, va_list arguments) {
	char path[4200], text[1024];
	struct stat facts;
	int head = snprintf(text, sizeof text, "%d: ", (int)getpid());

	vsnprintf(text + head, sizeof text - (size_t)head - 1, format, arguments);
	strcat(text, "\n");
	snprintf(path, sizeof path, "%s/log", folder);
	int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0)
		return;
	if (fstat(file, &facts) == 0 && facts.st_size < LARGEST_LOG) {
		ssize_t written = write(file, text, strlen(text));
		(void)written;
	}
	close(file);
}

#define WRITE(format) \
	va_list arguments; \
	va_start(arguments, format); \
	write_note(format, arguments); \
	va_end(arguments)

void note(const char *format, ...) { WRITE(format); }

void budget_note(const char *format, ...) { WRITE(format); }
