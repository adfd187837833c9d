/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress. With FAKECUDA_ALIASES in the environment it returns other addresses than dlsym: jumps to the
 * functions, as a driver may have entries of its own.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PER_THREAD_STREAM 2

/* The forms of each base name, in the order of their versions. */
enum streams { ANY, LEGACY, PER_THREAD };
static const struct form {
	const char *base, *exported;
	int version;
	enum streams streams;
} forms[] = {
#define FORM(base, exported, version, streams) {#base, #exported, version, streams},
#define UNRESOLVED(exported) {"", #exported, 0, ANY},
#include "functions.h"
};

#define MAX_ALIASES 512

/* One jump for each function, always the same. */
static void *alias(void *function) {
	static struct {
		void *function;
		unsigned char code[24];
	} *aliases;
	static int count;
	void *found = NULL;
	LOCK;
	if (aliases == NULL)
		aliases = mmap(NULL, MAX_ALIASES * sizeof *aliases, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < count; i++)
		if (aliases[i].function == function)
			found = aliases[i].code;
	if (found == NULL && count < MAX_ALIASES) {
#if defined(__x86_64__)
		const unsigned char jump[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* mov rax, function; jmp rax */
		const int operand = 2;
#else
		const unsigned char jump[] = {
		    0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6, 0, 0, 0, 0, 0, 0, 0, 0}; /* ldr x16, +8; br x16; function */
		const int operand = 8;
#endif
		found = aliases[count].code;
		aliases[count].function = function;
		memcpy(aliases[count].code, jump, sizeof jump);
		memcpy(aliases[count].code + operand, &function, sizeof function);
		__builtin___clear_cache((char *)found, (char *)found + sizeof aliases->code);
		count++;
	}
	UNLOCK;
	return found;
}

/* The library stays loaded, and so may its handle. Looking for itself takes the loader as long as a hundred names. */
static void *exported_as(const char *name) {
	static void *library;
	void *known = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
	Dl_info self;
	if (known == NULL && dladdr((void *)enter_machine, &self) != 0) {
		known = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		__atomic_store_n(&library, known, __ATOMIC_RELEASE);
	}
	return known != NULL ? dlsym(known, name) : NULL;
}

enum found { FOUND, UNKNOWN_NAME, VERSION_TOO_OLD };

/*
 * The newest form that the driver has in the requested version, which may be above the driver's own; a negative one is
 * the newest. Exported names with a suffix are not base names. A form that the build hides is missing: an older one
 * does not stand in for it. Functions that a build adds are there in every version.
 */
static enum found find(const char *symbol, void **function, int version, uint64_t flags) {
	enum found found = UNKNOWN_NAME;
	enum streams unwanted = flags & PER_THREAD_STREAM ? LEGACY : PER_THREAD;
	int driver = driver_version(), added = strncmp(symbol, "cu", 2) == 0 && strchr(symbol, '_') == NULL;
	void *newest = NULL;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		const struct form *form = &forms[i];
		if (added && strcmp(form->exported, symbol) == 0)
			added = 0;
		if (strcmp(form->base, symbol) != 0 || *symbol == '\0' || form->version > driver)
			continue;
		void *there = exported_as(form->exported);
		if (there != NULL && found == UNKNOWN_NAME)
			found = VERSION_TOO_OLD;
		if (form->streams != unwanted && (unsigned)form->version <= (unsigned)version)
			newest = there;
	}
	if (added)
		newest = exported_as(symbol);
	if (newest == NULL)
		return found;
	*function = TEST_VARIABLE("ALIASES") != NULL ? alias(newest) : newest;
	return FOUND;
}

/* Works before cuInit, too. The first form of the query leaves the pointer alone where it finds nothing, the second one
 * sets it to NULL. */
static CUresult resolve(const char *symbol, void **function, int version, uint64_t flags, enum found *found) {
	CUresult result = called("cuGetProcAddress", 0);
	if (result == SUCCESS && (symbol == NULL || flags > 3))
		result = INVALID_VALUE;
	if (result == SUCCESS && driver_version() >= 13000 &&
	    version > driver_version()) /* older drivers answer as for their own version */
		result = INVALID_VALUE;
	if (result == SUCCESS)
		*found = find(symbol, function, version, flags);
	return result;
}

/* Without a status to write, what is not found is an error. */
EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
	enum found found = UNKNOWN_NAME;
	void *answer = NULL;
	CUresult result =
	    driver_version() < 11030 ? not_done("cuGetProcAddress") : resolve(symbol, &answer, version, flags, &found);
	if (result != SUCCESS || found != FOUND)
		return result != SUCCESS ? result : NOT_FOUND;
	if (function == NULL)
		return INVALID_VALUE;
	*function = answer;
	return SUCCESS;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
	enum found found = UNKNOWN_NAME;
	void *answer = NULL;
	CUresult result = driver_version() < 12000 ? not_done("cuGetProcAddress_v2")
	                  : function == NULL       ? INVALID_VALUE
	                                           : resolve(symbol, &answer, version, flags, &found);
	if (result == INVALID_VALUE && symbol != NULL && flags <= 3 && status != NULL)
		*status = 0;
	if (result == SUCCESS) {
		*function = answer;
		if (status != NULL)
			*status = (int)found;
	}
	return result;
}
