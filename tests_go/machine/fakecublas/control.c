// go:build cgo && linux

#include "control.h"

#include <dlfcn.h>
#include <stddef.h>

static const char *(*complaint)(void);
static int (*live)(void);

const char *attach_cublas(const char *soname) {
	void *library = dlopen(soname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (library == NULL)
		return "it is not loaded";
	*(void **)&complaint = dlsym(library, "fakecublas_complaint");
	*(void **)&live = dlsym(library, "fakecublas_live");
	return complaint == NULL || live == NULL ? "it is not the fake one" : NULL;
}

const char *cublas_complaint(void) { return complaint(); }
int cublas_live(void) { return live(); }
