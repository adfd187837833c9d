/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of device memory: what a Buffer owns, and gpuconf.memory.allocate's usual case.
 *
 * A block gives its memory back when it is freed, or dropped. It is in the list of live blocks from its allocation on
 * until then.
 */
#include "python.h"

#include <stdlib.h>
#include <string.h>
#include <structmember.h>

typedef struct block {
	PyObject_HEAD struct block *previous, *next; /* in the list of live blocks; NULL: at its ends, or not in it */
	uint64_t address, id;                        /* id 0: nothing to free */
	int64_t nbytes;
	uint32_t generation; /* of the devices that it belongs to */
	char listed;
	char freed; /* by free(), which loans may delay */
	Py_ssize_t loans;
	PyObject *buffer; /* a weak reference to the Buffer */
	PyObject *device; /* a LogicalDevice */
} Block;

/* A DLPack capsule or a copy uses the memory of a buffer, which is not freed before its last loan is dropped. */
typedef struct {
	PyObject_HEAD PyObject *buffer;
	Block *block;
} Loan;

static PyObject *block_type, *loan_type;
static Block *first, *last;

static PyObject *block_name; /* of a Buffer's slot */

/* Functions of memory/_buffer.py, and the class Buffer. */
static struct {
	PyObject *buffer_type;
	PyObject *gpus;    /* () -> the list of logical GPUs */
	PyObject *publish; /* (): logs the pending notices */
} python;

/* What device arguments stand for, text or None: their logical GPUs' numbers, in the generation of devices that
 * follows. */
static PyObject *numbers;
static uint32_t numbers_generation;
enum { MOST_NUMBERS = 4096 };

static PyObject *gpus; /* the list of logical GPUs of a generation */
static uint32_t gpus_generation;

static void enlist(Block *block) {
	block->listed = 1;
	block->previous = last;
	*(last != NULL ? &last->next : &first) = block;
	last = block;
}

static void forget(Block *block) {
	block->id = 0;
	if (!block->listed)
		return;
	block->listed = 0;
	*(block->previous != NULL ? &block->previous->next : &first) = block->next;
	*(block->next != NULL ? &block->next->previous : &last) = block->previous;
	block->previous = block->next = NULL;
}

static int invalid(const char *marked) { return strncmp(marked, "\036INVALID_ARGUMENT\036", 18) == 0; }

/*
 * Frees the memory in the core, once. It keeps the GIL unless that may wait: if a garbage collection let another thread
 * run at each block that it frees, that thread could make garbage faster than it is collected. Returns NULL or the text
 * of an error; an invalid argument means that the memory was already freed by its address. The caller owns a reference,
 * or has taken the block from the list.
 */
static char *give_back(Block *block) {
	char *refusal = NULL;

	if (block->id != 0 && block->generation == gcpy_generation()) {
		bool tried = true;

		refusal = gcgo_try_give_back(block->address, block->id, &tried);
		if (!tried) {
			Py_BEGIN_ALLOW_THREADS refusal = gcgo_give_back(block->address, block->id);
			Py_END_ALLOW_THREADS
		}
	}
	if (refusal == NULL || invalid(refusal))
		forget(block);
	return refusal;
}

static PyObject *free_block(Block *self, PyObject *unused) {
	char *refusal;

	(void)unused;
	if (gcpy_ending()) {
		self->freed = 1;
		return Py_NewRef(Py_None);
	}
	if (self->freed) /* two threads may free the same buffer; only the first does */
		return Py_NewRef(Py_None);
	if (gcpy_refused())
		return NULL;
	self->freed = 1;
	if (self->loans > 0 || (refusal = give_back(self)) == NULL)
		return Py_NewRef(Py_None);
	self->freed = (char)invalid(refusal); /* else another call, or the end of the block, may free it */
	gcpy_raise_and_free(refusal);
	return NULL;
}

static int is_freed(const Block *block) {
	return block->freed || (block->nbytes != 0 && (block->id == 0 || block->generation != gcpy_generation()));
}

static PyObject *get_freed(Block *self, void *unused) {
	(void)unused;
	return PyBool_FromLong(is_freed(self));
}

static PyObject *get_lent(Block *self, void *unused) {
	(void)unused;
	return PyBool_FromLong(self->loans > 0);
}

/* lend(buffer) -> Loan of this buffer's block, or None if it is freed. */
static PyObject *lend(Block *self, PyObject *buffer) {
	Loan *loan = (Loan *)gcpy_new(loan_type);

	if (loan == NULL || is_freed(self)) {
		Py_XDECREF(loan);
		return loan != NULL ? Py_NewRef(Py_None) : NULL;
	}
	self->loans++;
	loan->buffer = Py_NewRef(buffer);
	loan->block = (Block *)Py_NewRef((PyObject *)self);
	return (PyObject *)loan;
}

/* Reports an error where nobody can catch it, and frees its text. */
static void complain(Block *block, char *refusal) {
	gcpy_raise_and_free(refusal);
	PyErr_WriteUnraisable((PyObject *)block);
}

/* The last loan of a freed block frees the memory. */
static void delete_loan(Loan *self) {
	Block *block = self->block;
	PyObject *kind, *value, *trace;
	char *refusal;

	PyErr_Fetch(&kind, &value, &trace);
	if (block != NULL && --block->loans == 0 && block->freed && !gcpy_ending() && !gcpy_forked() &&
	    (refusal = give_back(block)) != NULL)
		complain(block, refusal);
	Py_XDECREF(block);
	Py_XDECREF(self->buffer);
	PyErr_Restore(kind, value, trace);
	gcpy_delete((PyObject *)self);
}

/* Warns that a block was dropped. */
static void warn(Block *block) {
	OWNED PyObject *name = block->device != NULL ? PyObject_GetAttrString(block->device, "name") : NULL;
	char address[20];

	snprintf(address, sizeof address, "0x%llx", (unsigned long long)block->address); /* older Pythons have no %llx */
	if (name == NULL || PyErr_ResourceWarning((PyObject *)block, 1,
	                        "<gpuconf.Buffer of %lld bytes on %S, at %s> was dropped without free()",
	                        (long long)block->nbytes, name, address) < 0)
		PyErr_WriteUnraisable((PyObject *)block);
}

static void delete_block(Block *self) {
	/* A forked child does not own the memory. */
	if (self->id != 0 && self->generation == gcpy_generation() && !gcpy_ending() && !gcpy_forked()) {
		PyObject *kind, *value, *trace;
		int silent = self->freed;
		char *refusal;

		PyErr_Fetch(&kind, &value, &trace);
		Py_INCREF(self); /* Python code may run, and keep it */
		refusal = give_back(self);
		forget(self);
		if (refusal == NULL && !silent)
			warn(self);
		else if (refusal != NULL && !invalid(refusal))
			complain(self, refusal);
		else
			free(refusal);
		PyErr_Restore(kind, value, trace);
		if (Py_REFCNT(self) > 1) { /* the record of a warning keeps its source */
			Py_DECREF(self);
			return;
		}
	}
	forget(self);
	Py_CLEAR(self->buffer);
	Py_CLEAR(self->device);
	gcpy_delete((PyObject *)self);
}

/* The LogicalDevice of a logical GPU; new reference. */
static PyObject *device_of(int32_t number) {
	PyObject *device;

	if (gpus == NULL || gpus_generation != gcpy_generation()) {
		uint32_t generation = gcpy_generation();
		PyObject *listed = PyObject_CallFunction(python.gpus, NULL), *before = gpus;

		if (listed == NULL)
			return NULL;
		gpus = listed;
		gpus_generation = generation;
		Py_XDECREF(before);
	}
	device = PyList_GetItem(gpus, number);
	return device != NULL ? Py_NewRef(device) : NULL;
}

/* Allocates on a logical GPU, -1 for the thread's. Returns a Buffer. */
static PyObject *allocate_on(long long number, long long nbytes) {
	Block *block = (Block *)gcpy_new(block_type);
	PyObject *buffer = block != NULL ? gcpy_new(python.buffer_type) : NULL;
	uint16_t by = (uint16_t)(gcgo_tag_read() << GCGO_LIBRARY_BITS | GCGO_GPUCONF);
	struct gcgo_taken taken;
	char *refusal;

	/* All objects are made before the memory is allocated: making one may start a garbage collection, and so Python
	 * code. */
	if (buffer == NULL || (block->buffer = PyWeakref_NewRef(buffer, NULL)) == NULL)
		goto failed;
	if (__atomic_load_n(&gcgo_stacks, __ATOMIC_RELAXED))
		gcgo_note_stack(0);
	Py_BEGIN_ALLOW_THREADS refusal = gcgo_take(number, nbytes, by, gcgo_scope_read(), &taken);
	Py_END_ALLOW_THREADS if (refusal != NULL) {
		gcpy_raise_and_free(refusal);
		goto failed;
	}
	block->address = taken.address;
	block->id = taken.id;
	block->nbytes = nbytes;
	block->generation = gcpy_generation(); /* no reset is possible while memory is in use */
	if ((block->device = device_of(taken.gpu)) == NULL || PyObject_SetAttr(buffer, block_name, (PyObject *)block) < 0)
		goto failed;
	if (taken.id != 0) /* only now: other threads may list and print the buffer from here on */
		enlist(block);
	if (taken.noticed) {
		OWNED PyObject *published = PyObject_CallFunction(python.publish, NULL);

		if (published == NULL)
			goto failed;
	}
	Py_DECREF(block);
	return buffer;
failed:
	if (block != NULL)
		block->freed = 1; /* nobody has it: no warning */
	Py_XDECREF(buffer);
	Py_XDECREF(block);
	return NULL;
}

/* allocate(number, nbytes) -> Buffer. Raises the core's errors. */
static PyObject *allocate(PyObject *module, PyObject *args) {
	long long number, nbytes;

	(void)module;
	if (!PyArg_ParseTuple(args, "LL", &number, &nbytes) || gcpy_refused())
		return NULL;
	return allocate_on(number, nbytes);
}

/* remember(device, number): what a device argument stands for, for allocate_quickly. The caller lets no reset run
 * meanwhile. */
static PyObject *remember(PyObject *module, PyObject *args) {
	PyObject *device, *number;
	uint32_t generation = gcpy_generation();

	(void)module;
	if (!PyArg_ParseTuple(args, "OO", &device, &number))
		return NULL;
	if (device == Py_None || PyUnicode_CheckExact(device)) {
		if (numbers == NULL && (numbers = PyDict_New()) == NULL)
			return NULL;
		if (numbers_generation != generation || PyDict_Size(numbers) >= MOST_NUMBERS)
			PyDict_Clear(numbers);
		numbers_generation = generation;
		if (PyDict_SetItem(numbers, device, number) < 0)
			return NULL;
	}
	return Py_NewRef(Py_None);
}

/*
 * allocate_quickly(nbytes, device, wait) -> Buffer, or None where an argument, the thread's scope or the process needs
 * a closer look: Python then checks everything. Raises the core's errors.
 */
static PyObject *allocate_quickly(PyObject *module, PyObject *const *args, Py_ssize_t count) {
	PyObject *number;
	long long nbytes, gpu;
	int overflow;
	char text[512];

	(void)module;
	if (count != 3 || !PyLong_CheckExact(args[0]) || !(args[1] == Py_None || PyUnicode_CheckExact(args[1])) ||
	    !PyFloat_Check(args[2]) || PyFloat_AsDouble(args[2]) != 0.0 || numbers == NULL ||
	    numbers_generation != gcpy_generation())
		return Py_NewRef(Py_None);
	nbytes = PyLong_AsLongLongAndOverflow(args[0], &overflow);
	if (overflow != 0 || nbytes < 0)
		return Py_NewRef(Py_None);
	number = PyDict_GetItemWithError(numbers, args[1]);
	if (number == NULL)
		return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
	gpu = PyLong_AsLongLong(number);
	if ((gpu < 0 && (int32_t)(uint32_t)gcgo_scope_read() < GPUCONF_NO_SCOPE) ||
	    gcgo_refusal(text, sizeof text) != GCGO_NONE)
		return Py_NewRef(Py_None);
	return allocate_on(gpu, nbytes);
}

/* The Buffers of the blocks that are not returned to their pool, oldest first, freed ones that are lent included. */
static PyObject *held_buffers(PyObject *module, PyObject *unused) {
	PyObject *list, **found;
	Py_ssize_t count = 0, room = 0;

	(void)module, (void)unused;
	for (Block *block = first; block != NULL; block = block->next)
		room++;
	if ((found = PyMem_Malloc((size_t)(room + 1) * sizeof *found)) == NULL)
		return PyErr_NoMemory();
	for (Block *block = first; block != NULL; block = block->next) {
		PyObject *buffer = PyWeakref_GetObject(block->buffer);

		if (block->generation == gcpy_generation() && buffer != NULL && buffer != Py_None)
			found[count++] = Py_NewRef(buffer);
	}
	list = PyList_New(count); /* may start a garbage collection, and so change the list of blocks */
	for (Py_ssize_t i = 0; i < count; i++) {
		if (list != NULL)
			PyList_SetItem(list, i, found[i]);
		else
			Py_DECREF(found[i]);
	}
	PyMem_Free(found);
	return list;
}

static PyObject *connect_block(PyObject *module, PyObject *args) {
	(void)module;
	return gcpy_keep(&python, sizeof python, args);
}

static PyMethodDef block_methods[] = {
    {"free", (PyCFunction)(void (*)(void))free_block, METH_NOARGS, NULL},
    {"lend", (PyCFunction)(void (*)(void))lend, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef block_members[] = {
    {"id", T_ULONGLONG, offsetof(Block, id), READONLY, NULL},
    {"ptr", T_ULONGLONG, offsetof(Block, address), READONLY, NULL},
    {"nbytes", T_LONGLONG, offsetof(Block, nbytes), READONLY, NULL},
    {"device", T_OBJECT, offsetof(Block, device), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef block_getters[] = {
    {"freed", (getter)get_freed, NULL, NULL, NULL},
    {"lent", (getter)get_lent, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_dealloc, (void *)delete_block},
    {Py_tp_methods, block_methods},
    {Py_tp_members, block_members},
    {Py_tp_getset, block_getters},
    {0, NULL},
};

static PyType_Spec block_spec = {"gpuconf.Block", sizeof(Block), 0, CLOSED, block_slots};

static PyType_Slot loan_slots[] = {{Py_tp_dealloc, (void *)delete_loan}, {0, NULL}};
static PyType_Spec loan_spec = {"gpuconf.Loan", sizeof(Loan), 0, CLOSED, loan_slots};

static PyMethodDef functions[] = {
    {"connect_block", connect_block, METH_VARARGS, NULL},
    {"allocate", allocate, METH_VARARGS, NULL},
    {"allocate_quickly", (PyCFunction)(void (*)(void))allocate_quickly, METH_FASTCALL, NULL},
    {"remember", remember, METH_VARARGS, NULL},
    {"held_buffers", held_buffers, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int gcpy_add_block(PyObject *module) {
	if ((block_name = PyUnicode_InternFromString("_block")) == NULL ||
	    (block_type = PyType_FromSpec(&block_spec)) == NULL || (loan_type = PyType_FromSpec(&loan_spec)) == NULL)
		return -1;
	return PyModule_AddFunctions(module, functions);
}
