/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throws a C++ exception from C, using the C++ runtime of the library that catches it.
 *
 * A throw compiled into this library would need a C++ runtime. Linked as a shared library, it would prevent the import
 * on machines without one. Linked statically, the process would have two runtimes, each with its own count of the
 * exceptions in flight, and std::uncaught_exceptions() would stay wrong in a thread that caught one. So the few C++ ABI
 * functions that a throw needs are looked up in the runtime that is already loaded. If none is loaded, no code can
 * catch an exception either.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

typedef void destructor(void *object);

/* The C++ runtime that the process has loaded. */
struct runtime {
	void *library;
	void *(*allocate)(size_t size);
	void (*throw)(void *object, void *type, destructor *destroy);
};

/* A library that is already loaded, or NULL. The handle is never closed: these libraries stay loaded. */
static void *loaded(const char *name) { return dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }

static void *find(void *library, const char *name) { return library ? dlsym(library, name) : NULL; }

static struct runtime find_runtime(void) {
	struct runtime cxx = {.library = loaded("libstdc++.so.6")};

	*(void **)&cxx.allocate = find(cxx.library, "__cxa_allocate_exception");
	*(void **)&cxx.throw = find(cxx.library, "__cxa_throw");
	return cxx;
}

/* std::string of libstdc++ since GCC 5. The text of an empty string is the built-in buffer. */
struct string {
	char *text;
	size_t length;
	char buffer[16];
};

/* The older, reference-counted std::string, which PyTorch's wheels used until 2.6: a pointer to the text. */
struct old_string {
	char *text;
};

#define STRING "St7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"
#define LOCATION "NS_14SourceLocationE" /* c10::SourceLocation */

struct location {
	const char *function, *file;
	uint32_t line;
};

/*
 * PyTorch's own out-of-memory error, which Python sees as torch.OutOfMemoryError. c10::OutOfMemoryError is c10::Error
 * under another name. Its exported constructor makes it, in older versions c10::Error's, in a buffer larger than any
 * version has needed. Its virtual table leads to the type and the destructor. Tested with 2.6, 2.9, 2.11 and 2.15. A
 * PyTorch without these symbols gets a std::runtime_error.
 */
static void *find_torch_constructor(void) {
	void *own = find(loaded("libc10.so"), "_ZN3c1016OutOfMemoryErrorC1E" LOCATION "N" STRING "E");

	return own ? own : find(loaded("libc10.so"), "_ZN3c105ErrorC1E" LOCATION "N" STRING "E");
}

static void *find_old_torch_constructor(void) { return find(loaded("libc10.so"), "_ZN3c105ErrorC1E" LOCATION "Ss"); }

static void **find_torch_table(void) {
	void *table = find(loaded("libc10.so"), "_ZTVN3c1016OutOfMemoryErrorE");

	return table ? table : find(loaded("libc10_cuda.so"), "_ZTVN3c1016OutOfMemoryErrorE");
}

static const struct location here = {"gpuconf_torch_malloc", "gpuconf", 0};

static int construct_torch(struct runtime cxx, void *error, const char *text) {
	void (*construct)(void *error, struct location where, struct string *message);
	void (*append)(struct string *, const char *, size_t), (*dispose)(struct string *);
	struct string message = {.length = 0};

	*(void **)&construct = find_torch_constructor();
	*(void **)&append = find(cxx.library, "_ZN" STRING "9_M_appendEPKcm");
	*(void **)&dispose = find(cxx.library, "_ZN" STRING "10_M_disposeEv");
	if (!construct || !append || !dispose)
		return 0;
	message.text = message.buffer;
	append(&message, text, strlen(text));
	construct(error, here, &message);
	dispose(&message);
	return 1;
}

static int construct_old_torch(struct runtime cxx, void *error, const char *text) {
	void (*construct)(void *error, struct location where, struct old_string *message);
	void (*make)(struct old_string *, const char *, const void *allocator), (*destroy)(struct old_string *);
	struct old_string message;

	*(void **)&construct = find_old_torch_constructor();
	*(void **)&make = find(cxx.library, "_ZNSsC1EPKcRKSaIcE");
	*(void **)&destroy = find(cxx.library, "_ZNSsD1Ev");
	if (!construct || !make || !destroy)
		return 0;
	make(&message, text, &message); /* the allocator is stateless and never read */
	construct(error, here, &message);
	destroy(&message);
	return 1;
}

static void throw_torch(struct runtime cxx, const char *text) {
	enum { ROOM = 1024, TYPE = 1, DESTROY = 2, FIRST = 2 };
	void **table = find_torch_table();
	void (*release)(void *);
	void **error;

	*(void **)&release = find(cxx.library, "__cxa_free_exception");
	if (!table || !release)
		return;
	error = cxx.allocate(ROOM);
	memset(error, 0, ROOM);
	if (!construct_torch(cxx, error, text) && !construct_old_torch(cxx, error, text)) {
		release(error);
		return;
	}
	*error = table + FIRST;
	cxx.throw(error, table[TYPE], (destructor *)table[DESTROY]);
}

static void throw_runtime_error(struct runtime cxx, const char *text) {
	void (*construct)(void *error, const char *text);
	void *type = find(cxx.library, "_ZTISt13runtime_error");
	destructor *destroy;
	void *error;

	*(void **)&construct = find(cxx.library, "_ZNSt13runtime_errorC1EPKc");
	*(void **)&destroy = find(cxx.library, "_ZNSt13runtime_errorD1Ev");
	if (!type || !construct || !destroy)
		return;
	error = cxx.allocate(4 * sizeof(void *)); /* it needs two */
	construct(error, text);
	cxx.throw(error, type, destroy);
}

/* Libraries search the text for "CUDA out of memory.", and accelerate searches a RuntimeError's for " out of memory.".
 */
static char *with_torch_words(const char *text) {
	static const char words[] = "CUDA out of memory. ";
	char *longer = malloc(sizeof words + strlen(text));

	return longer ? strcat(strcpy(longer, words), text) : NULL;
}

void gcgo_throw(const char *text) {
	struct runtime cxx = find_runtime();
	char *words = strstr(text, " out of memory") ? with_torch_words(text) : NULL;

	if (words != NULL) {
		gcgo_set_error(words); /* the thread owns the text now: the throws below do not return to free it */
		free(words);
	}
	if (!cxx.allocate || !cxx.throw)
		return;
	if (words != NULL)
		throw_torch(cxx, gpuconf_last_error());
	throw_runtime_error(cxx, gpuconf_last_error());
}
