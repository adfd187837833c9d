/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is started with a cleaned environment, or with other libraries in LD_PRELOAD and LD_LIBRARY_PATH, gets
 * back what makes it part of the simulation. GPUCONF_DISABLE=1 in its environment leaves that out.
 *
 * A child after vfork() has its parent's memory, so nothing here allocates. What libc's functions call of each other
 * cannot be replaced: each of them is here.
 */
#include "always.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libc's functions. A forked child must not look them up: another thread may have held the loader's lock. */
#define FUNCTIONS(each) \
	each(execve) each(execvpe) each(fexecve) each(posix_spawn) each(posix_spawnp) each(system) each(popen)
#define DECLARE(name) static __typeof__(&name) real_##name;
FUNCTIONS(DECLARE)
#define FIND(name) real_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name);
#define REAL(name) (real_##name != NULL ? real_##name : (__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { KEPT = 256 };
static char *kept[KEPT]; /* NAME=VALUE */
static size_t number_kept;
static char library[4200], simulator[4200];

/* Of the form NAME=VALUE, both. */
static int names_same(const char *entry, const char *other) {
	size_t length = strcspn(entry, "=");

	return strncmp(entry, other, length) == 0 && other[length] == '=';
}

/* The first value of a name counts: what the process itself has comes before what the cover gave. */
static void keep(const char *entry) {
	for (size_t i = 0; i < number_kept; i++)
		if (names_same(kept[i], entry))
			return;
	if (number_kept < KEPT && (kept[number_kept] = strdup(entry)) != NULL)
		number_kept++;
}

/* Remembers gpuconf's variables, what a simulation sets beside them for frameworks, and those that a cover gave (a zero
 * byte after each). */
void gpuconf_keep_environment(const char *given, size_t length) {
	FUNCTIONS(FIND)
	snprintf(library, sizeof library, "%s/_always/libgpuconf-always.so", gpuconf_package);
	snprintf(simulator, sizeof simulator, "%s/_simulator", gpuconf_package);
	for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
		if (strncmp(*entry, "GPUCONF_", 8) == 0 || names_same("ASAN_OPTIONS=", *entry) ||
		    names_same("JAX_SKIP_CUDA_CONSTRAINTS_CHECK=", *entry) || names_same("TORCHDYNAMO_DISABLE=", *entry))
			keep(*entry);
	for (const char *entry = given; entry != NULL && entry < given + length; entry += strlen(entry) + 1)
		if (strncmp(entry, "LD_LIBRARY_PATH=", 16) != 0 && strchr(entry, '=') != NULL)
			keep(entry);
}

/* Whether one of the parts of a text is this word. */
static int has(const char *text, const char *word, const char *separators) {
	for (text += strspn(text, separators); *text != 0; text += strspn(text, separators)) {
		size_t length = strcspn(text, separators);
		if (length == strlen(word) && strncmp(text, word, length) == 0)
			return 1;
		text += length;
	}
	return 0;
}

/* The bytes that `complete` needs; 0 if the environment is to stay as it is. */
static size_t room_for(char *const *environment) {
	size_t count = 0;
	const char *preloaded = gpuconf_value(environment, "LD_PRELOAD");
	const char *path = gpuconf_value(environment, "LD_LIBRARY_PATH");

	if (number_kept == 0 || gpuconf_disabled(environment))
		return 0;
	if (gpuconf_value(environment, MARK) != NULL && gpuconf_value(environment, "GPUCONF_SIMULATE") == NULL)
		return 0; /* a program of gpuconf itself has chosen that */
	while (environment != NULL && environment[count] != NULL)
		count++;
	return (count + number_kept + 3) * sizeof(char *) + strlen(library) + strlen(simulator) + 64 +
	       (preloaded == NULL ? 0 : strlen(preloaded)) + (path == NULL ? 0 : strlen(path));
}

/* `room` is as room_for has counted. Pointers come first in it, and the texts behind them. */
static char **complete(void *room, char *const *environment) {
	const char *preloaded = gpuconf_value(environment, "LD_PRELOAD");
	const char *path = gpuconf_value(environment, "LD_LIBRARY_PATH");
	int preloads = !gpuconf_covered && (preloaded == NULL || !has(preloaded, library, " :"));
	int searches = path == NULL || !has(path, simulator, ":;");
	int cleaned = gpuconf_value(environment, MARK) == NULL;
	size_t count = 0, before;
	char **all = room, *text;

	for (; environment != NULL && *environment != NULL; environment++)
		if (!(preloads && strncmp(*environment, "LD_PRELOAD=", 11) == 0) &&
		    !(searches && strncmp(*environment, "LD_LIBRARY_PATH=", 16) == 0))
			all[count++] = *environment;
	before = count;
	for (size_t i = 0; cleaned && i < number_kept; i++) {
		size_t other = 0;
		while (other < before && !names_same(kept[i], all[other]))
			other++;
		if (other == before)
			all[count++] = kept[i];
	}
	text = (char *)(all + count + 3);
	if (preloads) { /* behind the program's own: AddressSanitizer must come first */
		all[count++] = text;
		text = stpcpy(text, "LD_PRELOAD=");
		if (preloaded != NULL && *preloaded != 0)
			text = stpcpy(stpcpy(text, preloaded), ":");
		text = stpcpy(text, library) + 1;
	}
	if (searches) {
		all[count++] = text;
		text = stpcpy(stpcpy(text, "LD_LIBRARY_PATH="), simulator);
		if (path != NULL && *path != 0)
			stpcpy(stpcpy(text, ":"), path);
	}
	all[count] = NULL;
	return all;
}

#define COMPLETE(name, environment) \
	size_t room = room_for(environment); \
	char **name = (char **)(environment); \
	if (room != 0) \
	name = complete(alloca(room), environment)

#define EXECS(name, program) \
	EXPORTED int name(program, char *const words[], char *const environment[]) { \
		COMPLETE(all, environment); \
		return REAL(name)(it, words, all); \
	}
EXECS(execve, const char *it)
EXECS(execvpe, const char *it)
EXECS(fexecve, int it)

EXPORTED int execv(const char *path, char *const words[]) { return execve(path, words, environ); }

EXPORTED int execvp(const char *file, char *const words[]) { return execvpe(file, words, environ); }

EXPORTED int execveat(int folder, const char *path, char *const words[], char *const environment[], int flags) {
	COMPLETE(all, environment);
	return (int)syscall(SYS_execveat, folder, path, words, all, flags);
}

#define SPAWNS(name) \
	EXPORTED int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, \
	    const posix_spawnattr_t *attributes, char *const words[], char *const environment[]) { \
		COMPLETE(all, environment); \
		return REAL(name)(pid, path, actions, attributes, words, all); \
	}
SPAWNS(posix_spawn)
SPAWNS(posix_spawnp)

/* The words of execl() and its kin, as an array; with `environment`, what comes behind them. */
#define WORDS(first) \
	va_list rest; \
	size_t count = 1; \
	char **words; \
	va_start(rest, first); \
	for (const char *word = first; word != NULL; word = va_arg(rest, char *)) \
		count++; \
	va_end(rest); \
	words = alloca(count * sizeof *words); \
	va_start(rest, first); \
	words[0] = (char *)first; \
	for (size_t i = 1; words[i - 1] != NULL; i++) \
	words[i] = va_arg(rest, char *)

#define LISTS_WORDS(name, other) \
	EXPORTED int name(const char *path, const char *first, ...) { \
		WORDS(first); \
		va_end(rest); \
		return other(path, words, environ); \
	}
LISTS_WORDS(execl, execve)
LISTS_WORDS(execlp, execvpe)

EXPORTED int execle(const char *path, const char *first, ...) {
	WORDS(first);
	char **environment = va_arg(rest, char **);
	va_end(rest);
	return execve(path, words, environment);
}

/* libc starts the shell of these by itself, with the environment of this process. */
static void complete_own(void) {
	COMPLETE(all, environ);
	if (room == 0)
		return;
	for (; *all != NULL; all++) {
		char *equals = strchr(*all, '=');
		if (equals == NULL || gpuconf_value(environ, strndupa(*all, (size_t)(equals - *all))) == equals + 1)
			continue;
		setenv(strndupa(*all, (size_t)(equals - *all)), equals + 1, 1);
	}
}

EXPORTED int system(const char *command) {
	complete_own();
	return REAL(system)(command);
}

EXPORTED FILE *popen(const char *command, const char *mode) {
	complete_own();
	return REAL(popen)(command, mode);
}
