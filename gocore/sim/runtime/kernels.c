/* SPDX-License-Identifier: Apache-2.0 */
/* The names of kernels, which a library registers when it is loaded: about 30,000 in PyTorch's. A name is made readable
 * at its first use. */
#include "kernels.h"

#include "unmarked.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* A table by address with open addressing, at most half full; its size is a power of two. */
static struct kernel {
	const void *function;
	const char *symbol; /* the library's, while it is loaded */
	const char *name;
} *table;
static size_t size, taken;
pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

static struct kernel *place(struct kernel *in, size_t many, const void *function) {
	size_t at = ((uintptr_t)function >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20;
	for (;; at++)
		if (in[at & (many - 1)].function == function || in[at & (many - 1)].function == NULL)
			return &in[at & (many - 1)];
}

static int grow(void) {
	size_t many = size == 0 ? 1024 : size * 2;
	struct kernel *larger = calloc(many, sizeof *larger);
	if (larger == NULL)
		return 0;
	for (size_t i = 0; i < size; i++)
		if (table[i].function != NULL)
			*place(larger, many, table[i].function) = table[i];
	free(table);
	table = larger;
	size = many;
	return 1;
}

/* The other arguments, such as the device's own name for it, are not needed. */
EXPORT void __cudaRegisterFunction(void **handle, const char *function, char *symbol) {
	(void)handle;
	pthread_mutex_lock(&kernels_lock);
	if (taken * 2 < size || grow()) {
		struct kernel *kernel = place(table, size, function);
		taken += kernel->function == NULL;
		*kernel = (struct kernel){function, symbol, NULL};
	}
	pthread_mutex_unlock(&kernels_lock);
}

/*
 * The C++ runtime's, if the program has one, as PyTorch does. "void at::native::fill<float>(int)" becomes
 * "at::native::fill", and "std::enable_if<(4)>(0), void>::type norm<int>(int)" becomes "norm".
 */
static char *readable(const char *symbol) {
	char *(*demangle)(const char *, char *, size_t *, int *) =
	    (char *(*)(const char *, char *, size_t *, int *))dlsym(RTLD_DEFAULT, "__cxa_demangle");
	int status = 0;
	char *text = demangle != NULL ? demangle(symbol, NULL, NULL, &status) : NULL;
	if (text == NULL)
		return strdup(symbol);
	static const char anonymous[] = "(anonymous namespace)::";
	for (char *at; (at = strstr(text, anonymous)) != NULL;)
		memmove(at, at + sizeof anonymous - 1, strlen(at + sizeof anonymous - 1) + 1);
	char *start = text, *end = NULL, *at = text;
	for (int depth = 0, round = 0; *at != 0 && (*at != '(' || depth > 0); at++) {
		round += (*at == '(') - (*at == ')'); /* in a template's arguments, where < and > compare numbers */
		if (*at == '<' && round == 0 && depth++ == 0 && end == NULL)
			end = at;
		else if (*at == '>' && round == 0)
			depth--;
		else if (*at == ' ' && depth == 0) {
			start = at + 1;
			end = NULL;
		}
	}
	*(end != NULL ? end : at) = 0;
	memmove(text, start, strlen(start) + 1);
	return text;
}

static struct kernel look_up(const void *function, const char *name) {
	struct kernel found = {NULL, NULL, NULL};
	pthread_mutex_lock(&kernels_lock);
	struct kernel *kernel = size > 0 ? place(table, size, function) : NULL;
	if (kernel != NULL && kernel->function != NULL) {
		if (name != NULL)
			kernel->name = name;
		found = *kernel;
	}
	pthread_mutex_unlock(&kernels_lock);
	return found;
}

/* The symbol is read without the lock: that takes the loader's, which a thread has that loads a library and registers
 * its kernels. */
const char *kernel_name(const void *function) {
	struct kernel kernel = look_up(function, NULL);
	char *text = kernel.function != NULL && kernel.name == NULL ? readable(kernel.symbol) : NULL;
	if (text != NULL)
		kernel = look_up(function, counted_name(text));
	free(text);
	return kernel.name != NULL ? kernel.name : "a kernel";
}
