/* SPDX-License-Identifier: Apache-2.0 */
#include "python.h"

#include <stdlib.h>

/* Python before 3.13 has only the second. */
extern __attribute__((weak)) int Py_IsFinalizing(void), _Py_IsFinalizing(void);

static PyObject *error_of;

int gcpy_ending(void) {
	if (Py_IsFinalizing)
		return Py_IsFinalizing();
	return _Py_IsFinalizing ? _Py_IsFinalizing() : 0;
}

PyObject *gcpy_connect_errors(PyObject *module, PyObject *function) {
	(void)module;
	return gcpy_keep(&error_of, sizeof error_of, function);
}

void gcpy_raise(const char *marked) {
	OWNED PyObject *error = error_of ? PyObject_CallFunction(error_of, "s", marked) : NULL;

	if (error != NULL)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	else if (!PyErr_Occurred())
		PyErr_SetString(PyExc_RuntimeError, marked);
}

void gcpy_raise_and_free(char *marked) {
	gcpy_raise(marked);
	free(marked);
}

int gcpy_refused(void) {
	static const char *const kinds[] = {[GCGO_FORKED] = "FORKED", [GCGO_FEW_THREADS] = "UNAVAILABLE"};
	char text[512], marked[sizeof text + 32];
	enum gcgo_refusal why = gcgo_refusal(text, sizeof text);

	if (why == GCGO_NONE)
		return 0;
	snprintf(marked, sizeof marked, "\036%s\036%s", kinds[why], text); /* as pybind/process/gate.go encodes errors */
	gcpy_raise(marked);
	return 1;
}

int gcpy_forked(void) {
	char text[512];

	return gcgo_refusal(text, sizeof text) == GCGO_FORKED;
}

PyObject *gcpy_new(PyObject *type) {
	if (type == NULL) {
		PyErr_SetString(PyExc_SystemError, "gpuconf's Python half is not connected");
		return NULL;
	}
	return ((allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc))((PyTypeObject *)type, 0);
}

void gcpy_delete(PyObject *object) {
	PyTypeObject *type = Py_TYPE(object);

	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

PyObject *gcpy_keep(void *kept, size_t bytes, PyObject *args) {
	Py_ssize_t count = (Py_ssize_t)(bytes / sizeof(PyObject *));

	if (PyTuple_Check(args) && PyTuple_Size(args) != count)
		return PyErr_Format(PyExc_TypeError, "%zd functions are needed", count);
	for (Py_ssize_t i = 0; i < count; i++) {
		OWNED PyObject *before = ((PyObject **)kept)[i];

		((PyObject **)kept)[i] = Py_NewRef(PyTuple_Check(args) ? PyTuple_GetItem(args, i) : args);
	}
	return Py_NewRef(Py_None);
}
