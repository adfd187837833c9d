// SPDX-License-Identifier: Apache-2.0
// go:build cgo && linux && (amd64 || arm64)

#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct cublas_functions cublas;

static int tell_version(const struct cublas_functions *functions, struct cublas_load_answer *answer) {
	for (int i = 0; i < 3; i++)
		if (functions->cublasGetProperty(PROPERTY_MAJOR + i, &answer->version[i]) != 0)
			return 0;
	return 1;
}

void cublas_load(const char *before, const char *path, int only_loaded, struct cublas_load_answer *answer) {
	memset(answer, 0, sizeof *answer);
	answer->state = CUBLAS_NO_LIBRARY;
	if (before != NULL)
		(void)dlopen(before, RTLD_LAZY | RTLD_LOCAL); /* if this fails, loading the next library reports why */
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | (only_loaded ? RTLD_NOLOAD : 0));
	if (library == NULL) {
		const char *complaint = dlerror();
		if (!only_loaded)
			snprintf(answer->text, sizeof answer->text, "%s", complaint != NULL ? complaint : path);
		return;
	}
	answer->state = CUBLAS_INCOMPLETE;
	struct cublas_functions functions;
#define BIND(name, major, parameters) \
	*(void **)&functions.name = dlsym(library, #name); \
	if (functions.name == NULL && major <= OLDEST_CUBLAS) { \
		snprintf(answer->text, sizeof answer->text, "%s", #name); \
		return; \
	}
	CUBLAS_SYMBOLS(BIND)
#undef BIND
	if (!tell_version(&functions, answer)) {
		snprintf(answer->text, sizeof answer->text, "%s", "its version");
		return;
	}
	cublas = functions;
	answer->state = CUBLAS_LOADED;
}
