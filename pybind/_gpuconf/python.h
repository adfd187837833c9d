/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the C files that are written by hand beside gopy's: device scopes and blocks of memory, the calls that
 * programs make most often. Their functions run in one step of the interpreter, so a signal handler finds an operation
 * done or not begun.
 *
 * Their Python half passes functions to connect_scope and connect_block: the cases that are rare run in Python. All
 * state here is guarded by the GIL.
 */
#ifndef GPUCONF_PYTHON_H
#define GPUCONF_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "../cabi/abi.h"

/* pybind/cabi/abi.go. They return NULL, or the marked text of an error, which the caller frees. */
char *gcgo_take(int64_t number, int64_t nbytes, uint16_t by, int64_t scope, struct gcgo_taken *taken);
char *gcgo_give_back(uint64_t address, uint64_t id);

/* The same, unless it may wait: then it does nothing, and *tried is false. */
char *gcgo_try_give_back(uint64_t address, uint64_t id, bool *tried);

/* Add the types and functions of scope.c, block.c, tracked.c and nap.c to the module. They return -1 with an error set
 * on failure. */
int gcpy_add_scope(PyObject *module);
int gcpy_add_block(PyObject *module);
int gcpy_add_tracked(PyObject *module);
int gcpy_add_nap(PyObject *module);

/* Called by connect_errors: a function that returns the exception for a marked text. */
PyObject *gcpy_connect_errors(PyObject *module, PyObject *function);

/* Raises the error of a marked text. */
void gcpy_raise(const char *marked);

/* The same for text from Go, which it frees. */
void gcpy_raise_and_free(char *marked);

/* Returns 1, with an error set, if Go must not be entered. Called before every call into Go. */
int gcpy_refused(void);

/* Whether this process is a forked child, which must not enter Go. */
int gcpy_forked(void);

/* Whether Python is exiting: the memory then goes with the process. */
int gcpy_ending(void);

static inline uint32_t gcpy_generation(void) { return __atomic_load_n(&gcgo_generation, __ATOMIC_RELAXED); }

/* Flags of the types, which Python code cannot make objects of. */
enum { CLOSED = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };

/* A new object of a heap type, filled with zeros. */
PyObject *gcpy_new(PyObject *type);

/* Frees the memory of such an object, and drops its type. */
void gcpy_delete(PyObject *object);

/* Replaces the functions that Python passed, one or a tuple of them. kept is an array, or a struct of references.
 * Returns None, or NULL with an error set. */
PyObject *gcpy_keep(void *kept, size_t bytes, PyObject *args);

static inline void gcpy_drop(void *held) { Py_XDECREF(*(PyObject **)held); }

/* A variable with a reference, or NULL, which is dropped at the end of its block. */
#define OWNED __attribute__((cleanup(gcpy_drop)))

#endif
