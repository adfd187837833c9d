/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python calls that lead to an allocation, for recordings with stacks.
 *
 * A stack is noted before a call enters Go, in a thread-local that the recording reads (trace.Sites). It is stored
 * once, under a number: a table here finds the number by the code objects and positions of its frames, without making
 * text. The table holds a reference to each code object. All of it is guarded by the GIL.
 *
 * Where the thread does not hold the GIL, it takes it if the entry point allows: PyTorch and ctypes release it before
 * they allocate. A thread without a thread state of Python has no calls. Python's functions are looked up, because
 * several are not in the stable ABI.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "abi.h"

typedef struct object object; /* PyObject */

/* X(result, function, arguments, its name, its name in other versions) */
#define NEEDED(X) \
	X(object *, eval_frame, (void), "PyEval_GetFrame", NULL)     /* borrowed */ \
	X(object *, back, (object * frame), "PyFrame_GetBack", NULL) /* new */ \
	X(object *, code, (object * frame), "PyFrame_GetCode", NULL) /* new */ \
	X(int, line_of, (object * code, int lasti), "PyCode_Addr2Line", NULL) \
	X(object *, attribute, (object *, const char *), "PyObject_GetAttrString", NULL) /* new */ \
	X(const char *, text, (object *, ssize_t * size), "PyUnicode_AsUTF8AndSize", NULL) \
	X(void, incref, (object *), "Py_IncRef", NULL) \
	X(void, decref, (object *), "Py_DecRef", NULL) \
	X(void, fetch, (object **, object **, object **), "PyErr_Fetch", NULL) \
	X(void, restore, (object *, object *, object *), "PyErr_Restore", NULL) \
	X(void *, this_thread, (void), "PyGILState_GetThisThreadState", NULL) \
	X(void *, current, (void), "PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet") \
	X(int, ensure, (void), "PyGILState_Ensure", NULL) \
	X(void, release, (int), "PyGILState_Release", NULL) \
	X(int, initialized, (void), "Py_IsInitialized", NULL)
#define OPTIONAL(X) \
	X(int, lasti, (object * frame), "PyFrame_GetLasti", NULL)     /* not in Python 3.10 */ \
	X(int, line, (object * frame), "PyFrame_GetLineNumber", NULL) /* in its place there */ \
	X(int, finalizing, (void), "Py_IsFinalizing", "_Py_IsFinalizing")

static struct {
#define FIELD(result, function, arguments, name, other) result(*function) arguments;
	NEEDED(FIELD) OPTIONAL(FIELD)
} python;

static int found; /* whether all of it was */

int gcgo_stacks; /* whether a recording wants stacks; written by Go */

enum { MOST_FRAMES = 64 }; /* the innermost ones are kept */

struct frame {
	object *code;
	int at; /* the position in the code, or the line in Python 3.10 */
};

struct entry {
	uint64_t hash;
	uint32_t site, count;
	struct frame *frames; /* NULL: the place is empty */
};

static struct entry *table;
static size_t room, used; /* room is a power of two */
static char *hidden;      /* the innermost frames of files that begin with this are left out: our own */

static void *look_up(const char *name, const char *other) {
	void *symbol = dlsym(RTLD_DEFAULT, name);

	return symbol != NULL || other == NULL ? symbol : dlsym(RTLD_DEFAULT, other);
}

/* Whether this Python has all that is needed. */
static int find_python(void) {
#define FIND(result, function, arguments, name, other) *(void **)&python.function = look_up(name, other);
#define MISSES(result, function, arguments, name, other) || python.function == NULL
	NEEDED(FIND)
	OPTIONAL(FIND)
	/* one of the two reports a frame's position */
	return !((python.lasti == NULL && python.line == NULL) NEEDED(MISSES));
}

static void drop(struct frame *frames, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		python.decref(frames[i].code);
}

/* The frames of the calling thread, innermost first, each with a reference to its code. */
static uint32_t walk(struct frame *frames) {
	uint32_t count = 0;
	object *frame = python.eval_frame();

	if (frame != NULL)
		python.incref(frame);
	while (frame != NULL) {
		object *outer;

		if (count == MOST_FRAMES) {
			python.decref(frame);
			break;
		}
		frames[count].code = python.code(frame);
		frames[count++].at = python.lasti ? python.lasti(frame) : python.line(frame);
		outer = python.back(frame);
		python.decref(frame);
		frame = outer;
	}
	return count;
}

static uint64_t hash_of(const struct frame *frames, uint32_t count) {
	uint64_t hash = count;

	for (uint32_t i = 0; i < count; i++) {
		hash = (hash ^ (uintptr_t)frames[i].code) * 0x9E3779B97F4A7C15;
		hash = (hash ^ (hash >> 29) ^ (uint32_t)frames[i].at) * 0xBF58476D1CE4E5B9;
	}
	return hash ^ (hash >> 32);
}

static int same(const struct entry *e, const struct frame *frames, uint32_t count) {
	if (e->count != count)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		if (e->frames[i].code != frames[i].code || e->frames[i].at != frames[i].at)
			return 0;
	return 1;
}

/* The place of a stack in the table, which has room. */
static struct entry *place_of(uint64_t hash, const struct frame *frames, uint32_t count) {
	for (size_t i = hash & (room - 1);; i = (i + 1) & (room - 1)) {
		struct entry *e = &table[i];

		if (e->frames == NULL || (e->hash == hash && same(e, frames, count)))
			return e;
	}
}

static int grow(void) {
	struct entry *old = table;
	size_t old_room = room;
	struct entry *larger = calloc(old_room ? 2 * old_room : 1024, sizeof *larger);

	if (larger == NULL)
		return 0;
	table = larger;
	room = old_room ? 2 * old_room : 1024;
	for (size_t i = 0; i < old_room; i++)
		if (old[i].frames != NULL)
			*place_of(old[i].hash, old[i].frames, old[i].count) = old[i];
	free(old);
	return 1;
}

/* An attribute of a code object that is a string, without NUL characters; NULL if there is none. *owner keeps it alive.
 */
static const char *text_of(object *code, const char *name, object **owner) {
	ssize_t size = 0;
	const char *text = (*owner = python.attribute(code, name)) != NULL ? python.text(*owner, &size) : NULL;

	return text != NULL && strlen(text) == (size_t)size ? text : NULL;
}

/* Passes a new stack to Go as text, in the format of trace.Sites.Add, and returns its number. */
static uint32_t describe(const struct frame *frames, uint32_t count) {
	char *text = NULL;
	size_t length = 0;
	uint32_t site = 0;
	int ours = 1;
	object *kind, *value, *trace;
	FILE *out = open_memstream(&text, &length);

	if (out == NULL)
		return 0;
	python.fetch(&kind, &value, &trace); /* the caller may have an error set */
	for (uint32_t i = 0; i < count; i++) {
		object *file_owner, *name_owner;
		const char *file = text_of(frames[i].code, "co_filename", &file_owner);
		const char *name = text_of(frames[i].code, "co_name", &name_owner);

		ours = ours && file != NULL && hidden != NULL && strncmp(file, hidden, strlen(hidden)) == 0;
		if (!ours)
			fprintf(out, "%s%c%d%c%s%c", file ? file : "?", 0,
			    python.lasti ? python.line_of(frames[i].code, frames[i].at) : frames[i].at, 0, name ? name : "?", 0);
		if (file_owner != NULL)
			python.decref(file_owner);
		if (name_owner != NULL)
			python.decref(name_owner);
	}
	python.restore(kind, value, trace);
	int whole = !ferror(out);
	if (fclose(out) == 0 && whole && length > 0)
		site = gcgo_add_stack(text, length);
	free(text);
	return site;
}

/* The number of the calling thread's stack, which holds the GIL. */
static uint32_t site_of(void) {
	struct frame frames[MOST_FRAMES], *kept;
	uint32_t count = walk(frames), site = 0;
	uint64_t hash = hash_of(frames, count);
	struct entry *e;

	if (count == 0)
		return 0;
	if (room > 0 && (e = place_of(hash, frames, count))->frames != NULL) {
		site = e->site;
		drop(frames, count);
		return site;
	}
	site = describe(frames, count); /* may run Python code, which may change the table */
	if ((2 * used >= room && !grow()) || (e = place_of(hash, frames, count))->frames != NULL ||
	    (kept = malloc(count * sizeof *kept)) == NULL) {
		drop(frames, count);
		return site;
	}
	memcpy(kept, frames, count * sizeof *kept); /* with their references */
	*e = (struct entry){.hash = hash, .site = site, .count = count, .frames = kept};
	used++;
	return site;
}

/* Notes the calling thread's stack. acquire: whether the thread may wait for the GIL, because it holds no lock that
 * another needs. */
void gcgo_note_stack(int acquire) {
	void *mine;

	gcgo_site_write(0);
	if (!found || !python.initialized() || (python.finalizing && python.finalizing()) ||
	    (mine = python.this_thread()) == NULL)
		return;
	if (python.current() == mine) {
		gcgo_site_write(site_of());
	} else if (acquire) {
		int state = python.ensure();
		uint32_t site = site_of();

		python.release(state);
		gcgo_site_write(site);
	}
}

/* Called by Python, with the GIL held, before a recording with stacks starts. Returns 0 if this Python lacks what is
 * needed. */
int gpuconf_python_stacks_begin(const char *hide) {
	gpuconf_python_stacks_end();
	free(hidden);
	hidden = strdup(hide);
	found = find_python();
	return found;
}

/* Called by Python, with the GIL held, after one: releases the code objects. */
void gpuconf_python_stacks_end(void) {
	struct entry *old = table;
	size_t old_room = room;

	table = NULL;
	room = used = 0;
	for (size_t i = 0; i < old_room; i++) {
		if (old[i].frames != NULL) {
			drop(old[i].frames, old[i].count);
			free(old[i].frames);
		}
	}
	free(old);
}
