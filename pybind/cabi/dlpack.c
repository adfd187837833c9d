/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack capsules, which give PyTorch, CuPy, NumPy and others a view of a buffer or a tensor without a copy.
 *
 * A consumer may drop its view on any thread, without the GIL, and after Python has ended, so the deleter is written in
 * C. The Python symbols are weak: in Go's tests there is no Python, and nothing here is called.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "abi.h"

typedef struct _object PyObject;
#define WEAK __attribute__((weak))
extern WEAK int Py_IsInitialized(void);
extern WEAK void Py_IncRef(PyObject *);
extern WEAK void Py_DecRef(PyObject *);
extern WEAK int PyGILState_Ensure(void);
extern WEAK void PyGILState_Release(int);
extern WEAK PyObject *PyErr_NoMemory(void);
extern WEAK PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
extern WEAK void *PyCapsule_GetPointer(PyObject *, const char *);
extern WEAK int PyCapsule_IsValid(PyObject *, const char *);

/* dlpack.h, versions 0.x (managed) and 1.x (versioned). */
struct tensor {
	void *data;
	struct {
		int32_t type, id;
	} device;
	int32_t ndim;
	struct {
		uint8_t code, bits;
		uint16_t lanes;
	} dtype;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

struct managed {
	struct tensor tensor;
	void *owner;
	void (*deleter)(struct managed *);
};

struct versioned {
	uint32_t major, minor;
	void *owner;
	void (*deleter)(struct versioned *);
	uint64_t flags;
	struct tensor tensor;
};

static const char MANAGED[] = "dltensor", VERSIONED[] = "dltensor_versioned";

/* DLPack's bit for read-only memory; versions 0.x have no such flag. */
enum { READ_ONLY = 1 };

/* Either kind, followed by the arrays that its tensor points to. */
struct export {
	union {
		struct managed managed;
		struct versioned versioned;
	};
	int64_t sizes[]; /* the shape, then the strides */
};

static void release_owner(PyObject *owner) {
	if (!Py_IsInitialized())
		return; /* the process is about to end and frees the memory */
	int state = PyGILState_Ensure();
	Py_DecRef(owner);
	PyGILState_Release(state);
}

static void delete(struct export *export, void *owner) {
	free(export);
	release_owner(owner);
}

static void delete_managed(struct managed *m) {
	delete((struct export *)((char *)m - offsetof(struct export, managed)), m->owner);
}

static void delete_versioned(struct versioned *v) {
	delete((struct export *)((char *)v - offsetof(struct export, versioned)), v->owner);
}

/* A consumer renames the capsule it consumes, so a capsule with its original name was not consumed. */
static void end_capsule(PyObject *capsule) {
	if (PyCapsule_IsValid(capsule, MANAGED))
		delete_managed(PyCapsule_GetPointer(capsule, MANAGED));
	else if (PyCapsule_IsValid(capsule, VERSIONED))
		delete_versioned(PyCapsule_GetPointer(capsule, VERSIONED));
}

/* Row-major and contiguous. */
static void describe(struct tensor *tensor, int64_t *sizes, const int64_t *shape, int32_t ndim) {
	int64_t stride = 1;

	for (int32_t i = ndim - 1; i >= 0; i--) {
		sizes[i] = shape[i];
		sizes[ndim + i] = stride;
		stride *= shape[i];
	}
	tensor->ndim = ndim;
	tensor->shape = sizes;
	tensor->strides = sizes + ndim;
}

/*
 * Returns a capsule for an array in memory; it keeps owner alive. Returns NULL with a Python error set on failure. The
 * caller, python/gpuconf/_core/interchange.py, holds the GIL. flags are DLPack's; a negative value requests the older
 * version.
 */
PyObject *gpuconf_python_dlpack(PyObject *owner, void *data, const int64_t *shape, int32_t ndim, int32_t code,
    int32_t bits, int32_t device_type, int32_t device_id, int32_t flags) {
	struct export *export = calloc(1, sizeof *export + 2 * (size_t)ndim * sizeof *export->sizes);
	struct tensor *tensor;
	PyObject *capsule;

	if (export == NULL)
		return PyErr_NoMemory();
	tensor = flags >= 0 ? &export->versioned.tensor : &export->managed.tensor;
	describe(tensor, export->sizes, shape, ndim);
	tensor->data = data;
	tensor->device.type = device_type;
	tensor->device.id = device_id;
	tensor->dtype.code = (uint8_t)code;
	tensor->dtype.bits = (uint8_t)bits;
	tensor->dtype.lanes = 1;
	if (flags >= 0) {
		export->versioned.major = 1;
		export->versioned.owner = owner;
		export->versioned.deleter = delete_versioned;
		export->versioned.flags = (uint64_t)flags & READ_ONLY;
	} else {
		export->managed.owner = owner;
		export->managed.deleter = delete_managed;
	}
	capsule = flags >= 0 ? PyCapsule_New(&export->versioned, VERSIONED, end_capsule)
	                     : PyCapsule_New(&export->managed, MANAGED, end_capsule);
	if (capsule == NULL) {
		free(export);
		return NULL;
	}
	Py_IncRef(owner);
	return capsule;
}
