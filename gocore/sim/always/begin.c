/* SPDX-License-Identifier: Apache-2.0 */
/* Where this library is, and whether it has anything to do in this process. */
#include "always.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

char gpuconf_package[4096];
int gpuconf_covered;

const char *gpuconf_value(char *const *environment, const char *name) {
	size_t length = strlen(name);

	for (; environment != NULL && *environment != NULL; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

int gpuconf_disabled(char *const *environment) {
	const char *value = gpuconf_value(environment, "GPUCONF_DISABLE");

	return value != NULL && *value != 0 && strcmp(value, "0") != 0;
}

/* Sets the variables of the cover that this process lacks. Returns all of them, or NULL outside of a cover. */
static char *read_cover(size_t *length) {
	int file = open(COVER_ENVIRONMENT, O_RDONLY | O_CLOEXEC);
	struct stat status;
	char *text = NULL;

	*length = 0;
	if (file < 0)
		return NULL;
	if (fstat(file, &status) == 0 && (text = calloc(1, (size_t)status.st_size + 1)) != NULL)
		for (ssize_t got; (got = read(file, text + *length, (size_t)status.st_size - *length)) > 0;)
			*length += (size_t)got;
	close(file);
	if (text == NULL)
		return NULL;
	for (char *one = text; one < text + *length; one += strlen(one) + 1) {
		char *equals = strchr(one, '=');
		if (equals == NULL)
			continue;
		*equals = 0;
		setenv(one, equals + 1, 0);
		*equals = '=';
	}
	setenv(MARK, "1", 0);
	return text;
}

/* This library lies in the package, so the package is where it was loaded from. */
static void find_package(void) {
	Dl_info self;
	char path[4096];

	if (dladdr((void *)gpuconf_value, &self) == 0 || realpath(self.dli_fname, path) == NULL)
		return;
	for (int level = 0; level < 2; level++) { /* of _always/libgpuconf-always.so */
		char *slash = strrchr(path, '/');
		if (slash == NULL)
			return;
		*slash = 0;
	}
	strcpy(gpuconf_package, path);
}

__attribute__((constructor)) static void begin(void) {
	size_t length;
	char *given;

	if (getauxval(AT_SECURE)) /* of another user's rights */
		return;
	given = read_cover(&length);
	gpuconf_covered = given != NULL;
	if (gpuconf_covered)
		gpuconf_note_tried();
	if (gpuconf_value(environ, MARK) == NULL || gpuconf_disabled(environ))
		return;
	find_package();
	if (gpuconf_package[0] == 0)
		return;
	gpuconf_keep_environment(given, length);
	gpuconf_watch_python(RTLD_DEFAULT);
}
