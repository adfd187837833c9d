/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device scopes: the context manager of gpuconf.device, and each thread's innermost scope.
 *
 * A scope's name is merged from the outer scope and the argument, and selects a logical GPU. Both are the same each
 * time until the devices change, so each pair of outer scope and argument is looked up once (Place). Entering it again
 * sets two words: the thread's place, and the number of its logical GPU where the C entry points read it.
 *
 * From CPython 3.14 on, a with statement calls __enter__ as it calls any function, and its block begins after that: an
 * exception of a signal handler can come between the two, and then __exit__ is not called. But the statement has looked
 * up __exit__ before. So each look-up makes a new object (Exit). The statement alone holds it, and the exception drops
 * it: then it leaves the scope itself.
 */
#include "python.h"

#include <stdlib.h>
#include <structmember.h>

enum { MOST_PLACES = 4096 }; /* that are kept */

/* A scope that threads are in. */
typedef struct {
	PyObject_HEAD PyObject *name; /* the full name */
	PyObject *outer, *argument;   /* what it was merged from: the outer scope's name, and the argument, None or text */
	PyObject *inner;              /* a dict: argument -> Place inside this one; NULL: empty */
	int64_t number;               /* of the logical GPU, negative if none */
	uint32_t generation;          /* of the devices that it belongs to */
} Place;

/* What is kept for each thread, in Python's own dict of the thread. */
typedef struct {
	PyObject_HEAD uint64_t serial; /* unlike the address, never used again */
	Place *now;                    /* NULL: outside of any scope */
} Thread;

/* An entry into a block of a scope that has not been left. */
struct entry {
	uint64_t thread;
	Place *outer, *place; /* outer may be NULL */
	PyObject *companion;  /* the contexts of other libraries, or None */
};

/* The context manager. It is reusable and reentrant, also in several threads. */
typedef struct {
	PyObject_HEAD PyObject *argument;
	struct entry *entries;
	Py_ssize_t count, room;
	int used; /* somebody tried to enter it */
} Scope;

/* What looking up __exit__ of a Scope gives. */
typedef struct {
	PyObject_HEAD Scope *scope;
	uint64_t thread;
	Py_ssize_t entries; /* of this thread, at that time */
	int called;
} Exit;

static PyObject *place_type, *thread_type, *scope_type, *exit_type, *lookup_type;
static PyObject *key; /* of the Thread in a thread's dict */
static uint64_t serials;
static Place *outside; /* its inner places are those of the outermost scopes */
static Py_ssize_t places;

/* Functions of _core/scope.py, and the dict of companions. */
static struct {
	PyObject *check;      /* (argument): raises if it can be no device's name; initializes the runtime */
	PyObject *text;       /* (argument) -> text, of an argument that is neither text nor None */
	PyObject *resolve;    /* (outer name, argument) -> (name, number, generation) */
	PyObject *accompany;  /* (number) -> a context that was entered, or None */
	PyObject *companions; /* by library; empty: accompany is not called */
} python;

static Place *new_place(PyObject *name, PyObject *outer, PyObject *argument, int64_t number, uint32_t generation) {
	Place *place = (Place *)gcpy_new(place_type);

	if (place != NULL) {
		place->name = Py_NewRef(name);
		place->outer = Py_XNewRef(outer);
		place->argument = Py_XNewRef(argument);
		place->number = number;
		place->generation = generation;
	}
	return place;
}

static void delete_place(Place *place) {
	Py_CLEAR(place->name);
	Py_CLEAR(place->outer);
	Py_CLEAR(place->argument);
	Py_CLEAR(place->inner);
	gcpy_delete((PyObject *)place);
}

static void delete_thread(Thread *thread) {
	Py_CLEAR(thread->now);
	gcpy_delete((PyObject *)thread);
}

/* The calling thread's; borrowed. */
static Thread *this_thread(void) {
	PyObject *dict = PyThreadState_GetDict();
	Thread *thread;

	if (dict == NULL) {
		PyErr_NoMemory();
		return NULL;
	}
	thread = (Thread *)PyDict_GetItemWithError(dict, key);
	if (thread != NULL || PyErr_Occurred())
		return thread;
	OWNED Thread *made = (Thread *)gcpy_new(thread_type);
	if (made == NULL)
		return NULL;
	made->serial = ++serials;
	return PyDict_SetItem(dict, key, (PyObject *)made) == 0 ? made : NULL; /* the dict keeps it */
}

/* The thread's innermost scope in a generation, borrowed; NULL outside of any. A reset has left all scopes. */
static Place *current_in(Thread *thread, uint32_t generation) {
	if (thread->now != NULL && thread->now->generation != generation)
		Py_CLEAR(thread->now);
	return thread->now;
}

static Place *current(Thread *thread) { return current_in(thread, gcpy_generation()); }

/* Makes a place, or NULL, this thread's scope. */
static void move(Thread *thread, Place *place) {
	OWNED Place *before = thread->now;
	int64_t number = place != NULL ? place->number : GPUCONF_NO_SCOPE;
	uint32_t generation = place != NULL ? place->generation : gcpy_generation();

	thread->now = (Place *)Py_XNewRef((PyObject *)place);
	gcgo_scope_write((int64_t)((uint64_t)generation << 32 | (uint32_t)(int32_t)number));
}

/* Whether a place is the one of the entry. TensorFlow treats scopes with equal names and arguments as one, too. */
static int same(Place *a, Place *b) {
	int equal;

	if (a == b)
		return 1;
	if (a == NULL)
		return 0;
	equal = PyObject_RichCompareBool(a->outer, b->outer, Py_EQ);
	return equal == 1 ? PyObject_RichCompareBool(a->argument, b->argument, Py_EQ) : equal;
}

/* The place outside of all scopes, borrowed. */
static Place *top(void) {
	if (outside == NULL || outside->generation != gcpy_generation()) {
		OWNED PyObject *name = PyUnicode_FromString("");
		Place *fresh = name != NULL ? new_place(name, NULL, NULL, GPUCONF_NO_SCOPE, gcpy_generation()) : NULL;
		Place *before = outside;

		if (fresh == NULL)
			return NULL;
		outside = fresh;
		places = 0;
		Py_XDECREF(before);
	}
	return outside;
}

/* The place inside the thread's current one for an argument; new reference. Python determines it the first time. */
static Place *find(Thread *thread, PyObject *argument) {
	for (;;) {
		/* Kept: Python code may change the current place. */
		OWNED Place *outer = (Place *)Py_XNewRef((PyObject *)(current(thread) != NULL ? thread->now : top()));
		OWNED PyObject *found = NULL;
		PyObject *name;
		Place *place;
		unsigned long generation;
		long long number;

		if (outer == NULL)
			return NULL;
		if (outer->inner != NULL && !__atomic_load_n(&gcgo_stopped, __ATOMIC_RELAXED)) {
			place = (Place *)PyDict_GetItemWithError(outer->inner, argument);
			if (place != NULL || PyErr_Occurred())
				return (Place *)Py_XNewRef((PyObject *)place);
		}
		found = PyObject_CallFunction(python.resolve, "OO", outer->name, argument);
		if (found == NULL || !PyArg_ParseTuple(found, "OLk", &name, &number, &generation))
			return NULL;
		if ((uint32_t)generation != gcpy_generation() || outer->generation != gcpy_generation())
			continue; /* reset meanwhile */
		place = new_place(name, outer->name, argument, number, (uint32_t)generation);
		if (place != NULL && places < MOST_PLACES) {
			if ((outer->inner == NULL && (outer->inner = PyDict_New()) == NULL) ||
			    PyDict_SetItem(outer->inner, argument, (PyObject *)place) < 0)
				Py_CLEAR(place);
			else
				places++;
		}
		return place;
	}
}

/* The argument as text, or None; new reference. */
static PyObject *text_of(PyObject *argument) {
	if (argument == Py_None || PyUnicode_CheckExact(argument))
		return Py_NewRef(argument);
	return PyObject_CallFunctionObjArgs(python.text, argument, NULL);
}

/* Enters the contexts of other libraries. Returns the context to close, None, or NULL with an error set. */
static PyObject *accompany(const Place *place) {
	if (place->number < 0 || PyDict_Size(python.companions) == 0)
		return Py_NewRef(Py_None);
	return PyObject_CallFunction(python.accompany, "L", (long long)place->number);
}

static int has_room(Scope *self) {
	if (self->count == self->room) {
		Py_ssize_t room = 2 * self->room + 2;
		struct entry *more = PyMem_Realloc(self->entries, (size_t)room * sizeof *more);

		if (more == NULL) {
			PyErr_NoMemory();
			return 0;
		}
		self->entries = more;
		self->room = room;
	}
	return 1;
}

static PyObject *enter(Scope *self, PyObject *unused) {
	Thread *thread = gcpy_refused() ? NULL : this_thread();
	OWNED PyObject *argument = NULL, *companion = NULL;
	OWNED Place *place = NULL;

	(void)unused;
	self->used = 1;
	if (thread == NULL || (argument = text_of(self->argument)) == NULL || (place = find(thread, argument)) == NULL)
		return NULL;
	/* Python code ran, or runs here. From then on there is none. */
	if ((companion = accompany(place)) == NULL || !has_room(self))
		return NULL;
	self->entries[self->count++] = (struct entry){thread->serial, (Place *)Py_XNewRef((PyObject *)current(thread)),
	    (Place *)Py_NewRef((PyObject *)place), Py_NewRef(companion)};
	move(thread, place);
	return Py_NewRef(Py_None);
}

/* The index of the last entry of a thread; negative if there is none. */
static Py_ssize_t last_of(const Scope *self, uint64_t thread) {
	Py_ssize_t at = self->count - 1;

	while (at >= 0 && self->entries[at].thread != thread)
		at--;
	return at;
}

/* Leaves the last block that this thread entered. Does nothing in a forked child. Returns 0, or -1 with an error set.
 */
static int leave(Scope *self) {
	Thread *thread;
	struct entry last;
	Py_ssize_t at;
	uint32_t generation =
	    gcpy_generation(); /* read once: another thread can reset the devices at any time, GIL or not */
	int failed = 0;

	if (gcpy_ending() || gcpy_forked())
		return 0;
	if ((thread = this_thread()) == NULL)
		return -1;
	if ((at = last_of(self, thread->serial)) < 0) {
		PyErr_SetString(PyExc_IndexError, "list index out of range"); /* TensorFlow's */
		return -1;
	}
	last = self->entries[at];
	if (last.place->generation == generation) {
		int equal = same(current_in(thread, generation), last.place);

		if (equal < 0)
			return -1;
		if (!equal) {
			gcpy_raise("\036FAILED_PRECONDITION\036Exiting device scope without proper scope nesting");
			return -1;
		}
		move(thread, last.outer);
	}
	self->count--;
	memmove(&self->entries[at], &self->entries[at + 1], (size_t)(self->count - at) * sizeof last);
	Py_XDECREF(last.outer);
	Py_DECREF(last.place);
	if (last.companion != Py_None) {
		OWNED PyObject *closed = PyObject_CallMethod(last.companion, "close", NULL);

		failed = closed == NULL;
	}
	Py_DECREF(last.companion);
	return failed ? -1 : 0;
}

static Py_ssize_t entries_of(const Scope *self, uint64_t thread) {
	Py_ssize_t found = 0;

	for (Py_ssize_t at = 0; at < self->count; at++)
		found += self->entries[at].thread == thread;
	return found;
}

/* Looks up __exit__: of a scope, a new Exit; of the class, the descriptor itself, which contextlib.ExitStack calls with
 * a scope. */
static PyObject *look_up_exit(PyObject *descriptor, PyObject *scope, PyObject *class) {
	Thread *thread;
	Exit *made;

	(void)class;
	if (scope == NULL)
		return Py_NewRef(descriptor);
	if ((thread = this_thread()) == NULL || (made = (Exit *)gcpy_new(exit_type)) == NULL)
		return NULL;
	made->scope = (Scope *)Py_NewRef(scope);
	made->thread = thread->serial;
	made->entries = entries_of(made->scope, thread->serial);
	return (PyObject *)made;
}

static PyObject *call_exit(Exit *self, PyObject *args, PyObject *kwargs) {
	(void)args, (void)kwargs;
	self->called = 1;
	return leave(self->scope) == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *call_exit_of(PyObject *descriptor, PyObject *args, PyObject *kwargs) {
	PyObject *scope = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;

	(void)descriptor, (void)kwargs;
	if (scope == NULL || Py_TYPE(scope) != (PyTypeObject *)scope_type) {
		PyErr_SetString(PyExc_TypeError, "DeviceScope.__exit__ needs a DeviceScope");
		return NULL;
	}
	return leave((Scope *)scope) == 0 ? Py_NewRef(Py_None) : NULL;
}

/* An exception drops it after __enter__ and before the block. Whoever calls __enter__ alone has no Exit and stays in
 * the scope. */
static void delete_exit(Exit *self) {
	Scope *scope = self->scope;

	if (!self->called && scope != NULL && scope->count > 0 && PyErr_Occurred()) {
		PyObject *type, *value, *traceback;
		Thread *thread;

		PyErr_Fetch(&type, &value, &traceback);
		thread = this_thread();
		if (thread != NULL && thread->serial == self->thread && entries_of(scope, self->thread) > self->entries &&
		    leave(scope) < 0)
			PyErr_WriteUnraisable((PyObject *)scope);
		PyErr_Restore(type, value, traceback);
	}
	Py_XDECREF((PyObject *)scope);
	gcpy_delete((PyObject *)self);
}

static int visit_scope(Scope *self, visitproc visit, void *arg) {
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(self->argument);
	for (Py_ssize_t i = 0; i < self->count; i++)
		Py_VISIT(self->entries[i].companion);
	return 0;
}

static int clear_scope(Scope *self) {
	Py_CLEAR(self->argument);
	while (self->count > 0) {
		struct entry last = self->entries[--self->count];

		Py_XDECREF(last.outer);
		Py_DECREF(last.place);
		Py_DECREF(last.companion);
	}
	return 0;
}

/* Warns of gpuconf.device(...) as a statement, which has no effect. */
static void warn(void) {
	PyObject *kind, *value, *trace;

	PyErr_Fetch(&kind, &value, &trace);
	if (PyErr_WarnEx(PyExc_UserWarning, "this device scope was never entered: write `with gpuconf.device(...):`", 1) <
	    0)
		PyErr_WriteUnraisable(NULL); /* a new reference to the scope would delete it a second time */
	PyErr_Restore(kind, value, trace);
}

static void delete_scope(Scope *self) {
	PyObject_GC_UnTrack(self);
	if (!self->used && self->argument != NULL && !gcpy_ending() && !gcpy_forked())
		warn();
	clear_scope(self);
	PyMem_Free(self->entries);
	gcpy_delete((PyObject *)self);
}

static PyObject *scope(PyObject *module, PyObject *argument) {
	Scope *made;

	(void)module;
	if (python.check == NULL) {
		PyErr_SetString(PyExc_SystemError, "gpuconf's Python half is not connected");
		return NULL;
	}
	/* Where there is a place, the runtime is initialized. */
	if (!PyUnicode_CheckExact(argument) || outside == NULL || outside->inner == NULL ||
	    outside->generation != gcpy_generation()) {
		OWNED PyObject *checked = PyObject_CallFunctionObjArgs(python.check, argument, NULL);

		if (checked == NULL)
			return NULL;
	} else if (gcpy_refused()) {
		return NULL;
	}
	if ((made = (Scope *)gcpy_new(scope_type)) != NULL)
		made->argument = Py_NewRef(argument);
	return (PyObject *)made;
}

static PyObject *scope_name(PyObject *module, PyObject *unused) {
	Thread *thread = this_thread();

	(void)module, (void)unused;
	if (thread == NULL)
		return NULL;
	return current(thread) != NULL ? Py_NewRef(thread->now->name) : PyUnicode_FromString("");
}

static PyObject *scope_number(PyObject *module, PyObject *unused) {
	Thread *thread = this_thread();

	(void)module, (void)unused;
	if (thread == NULL)
		return NULL;
	return PyLong_FromLongLong(current(thread) != NULL ? thread->now->number : GPUCONF_NO_SCOPE);
}

static PyObject *generation(PyObject *module, PyObject *unused) {
	(void)module, (void)unused;
	return PyLong_FromUnsignedLong(gcpy_generation());
}

/* Tags, whose names _tag.py knows: a thread's current one is a number, which Go gives the name. */
static PyObject *tag(PyObject *module, PyObject *unused) {
	(void)module, (void)unused;
	return PyLong_FromLongLong(gcgo_tag_read());
}

static PyObject *set_tag(PyObject *module, PyObject *number) {
	long long value = gcpy_refused() ? -1 : PyLong_AsLongLong(number);

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	if (value < 0 || value > GCGO_OTHER_TAG) {
		gcpy_raise("\036INVALID_ARGUMENT\036it is not the number of a tag");
		return NULL;
	}
	gcgo_tag_write((uint16_t)value);
	return Py_NewRef(Py_None);
}

static PyObject *connect_scope(PyObject *module, PyObject *args) {
	(void)module;
	return gcpy_keep(&python, sizeof python, args);
}

static PyType_Slot place_slots[] = {{Py_tp_dealloc, (void *)delete_place}, {0, NULL}};
static PyType_Slot thread_slots[] = {{Py_tp_dealloc, (void *)delete_thread}, {0, NULL}};

static PyMethodDef scope_methods[] = {
    {"__enter__", (PyCFunction)(void (*)(void))enter, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot exit_slots[] = {{Py_tp_dealloc, (void *)delete_exit}, {Py_tp_call, (void *)call_exit}, {0, NULL}};
static PyType_Slot lookup_slots[] = {
    {Py_tp_descr_get, (void *)look_up_exit}, {Py_tp_call, (void *)call_exit_of}, {0, NULL}};

static PyType_Slot scope_slots[] = {
    {Py_tp_dealloc, (void *)delete_scope},
    {Py_tp_traverse, (void *)visit_scope},
    {Py_tp_clear, (void *)clear_scope},
    {Py_tp_methods, scope_methods},
    {0, NULL},
};

static PyType_Spec place_spec = {"gpuconf.Place", sizeof(Place), 0, CLOSED, place_slots};
static PyType_Spec thread_spec = {"gpuconf.Thread", sizeof(Thread), 0, CLOSED, thread_slots};
static PyType_Spec exit_spec = {"gpuconf.DeviceScopeExit", sizeof(Exit), 0, CLOSED, exit_slots};
static PyType_Spec lookup_spec = {"gpuconf.DeviceScopeExitLookup", sizeof(PyObject), 0, CLOSED, lookup_slots};
static PyType_Spec scope_spec = {"gpuconf.DeviceScope", sizeof(Scope), 0, CLOSED | Py_TPFLAGS_HAVE_GC, scope_slots};

static PyMethodDef functions[] = {
    {"connect_errors", gcpy_connect_errors, METH_O, NULL},
    {"connect_scope", connect_scope, METH_VARARGS, NULL},
    {"scope", scope, METH_O, NULL},
    {"scope_name", scope_name, METH_NOARGS, NULL},
    {"scope_number", scope_number, METH_NOARGS, NULL},
    {"tag", tag, METH_NOARGS, NULL},
    {"set_tag", set_tag, METH_O, NULL},
    {"generation", generation, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* Gives the class of scopes its __exit__. */
static int add_exit(void) {
	OWNED PyObject *lookup = gcpy_new(lookup_type);

	return lookup != NULL ? PyObject_SetAttrString(scope_type, "__exit__", lookup) : -1;
}

int gcpy_add_scope(PyObject *module) {
	if ((key = PyUnicode_InternFromString("gpuconf's scope")) == NULL ||
	    (place_type = PyType_FromSpec(&place_spec)) == NULL || (thread_type = PyType_FromSpec(&thread_spec)) == NULL ||
	    (scope_type = PyType_FromSpec(&scope_spec)) == NULL || (exit_type = PyType_FromSpec(&exit_spec)) == NULL ||
	    (lookup_type = PyType_FromSpec(&lookup_spec)) == NULL || add_exit() < 0)
		return -1;
	return PyModule_AddFunctions(module, functions);
}
