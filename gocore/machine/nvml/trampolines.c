// SPDX-License-Identifier: Apache-2.0
// go:build cgo && linux && (amd64 || arm64)

#include "trampolines.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#pragma GCC visibility push(hidden)

/* One entry for each line of symbols.h, in its order. Defined in trampolines_table.h. */
extern void *trampolines_table[];

int trampolines_missing(void);
const char *trampolines_missing_text(void);

#pragma GCC visibility pop

/* One string and not an array of pointers, which the loader would have to relocate at every start. */
static const char names[] =
#define STATUS(name) #name "\0"
#define TEXT(name) #name "\0"
#include "symbols.h"
#undef STATUS
#undef TEXT
    ;

/* What the entries were without the library, and the library. */
enum {
#define STATUS(name) INDEX_##name,
#define TEXT(name) INDEX_##name,
#include "symbols.h"
#undef STATUS
#undef TEXT
	ENTRIES
};
static void *empty[ENTRIES], *library;

/* The result of a missing function, for any arguments: NVML_ERROR_UNINITIALIZED or _FUNCTION_NOT_FOUND. */
int trampolines_missing(void) { return library != NULL ? 13 : 1; }

/* The same for functions that return a string, for which a number would be a wild pointer. */
const char *trampolines_missing_text(void) { return "NVML's own text is missing"; }

int trampolines_load(const char *path, char *complaint, size_t complaint_size) {
	library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (library == NULL) {
		snprintf(complaint, complaint_size, "%s", dlerror());
		return 0;
	}
	memcpy(empty, trampolines_table, sizeof empty);
	void **entry = trampolines_table;
	for (const char *name = names; *name != '\0'; name += strlen(name) + 1, entry++) {
		void *function = dlsym(library, name);
		if (function != NULL)
			*entry = function;
	}
	return 1;
}

static int success(void) { return 0; }

void trampolines_forget_shutdown(void) { trampolines_table[INDEX_nvmlShutdown] = (void *)success; }

void trampolines_unload(void) {
	memcpy(trampolines_table, empty, sizeof empty);
	dlclose(library);
	library = NULL;
}
