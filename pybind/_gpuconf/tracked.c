/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds objects among all that the garbage collector knows.
 *
 * One of them may be a tuple that another thread is building, and while anything refers to it, tuple() fails there with
 * SystemError. Here no other thread runs while the list of all objects exists.
 */
#include "python.h"

static PyObject *collector; /* the module gc */

/* instances(class): the objects of a class and its subclasses, without running code of theirs. */
static PyObject *instances(PyObject *module, PyObject *kind) {
	/* Before the others: making a list may start a collection, and that runs Python code. */
	OWNED PyObject *found = PyList_New(0), *all = NULL;

	(void)module;
	if (found == NULL)
		return NULL;
	if (!PyType_Check(kind))
		return PyErr_Format(PyExc_TypeError, "instances() takes a class");
	if ((all = PyObject_CallMethod(collector, "get_objects", NULL)) == NULL)
		return NULL;
	for (Py_ssize_t i = 0, count = PyList_Size(all); i < count; i++) {
		PyObject *each = PyList_GetItem(all, i);

		if (PyType_IsSubtype(Py_TYPE(each), (PyTypeObject *)kind) && PyList_Append(found, each) < 0)
			return NULL;
	}
	return Py_NewRef(found);
}

static PyMethodDef functions[] = {{"instances", instances, METH_O, NULL}, {NULL, NULL, 0, NULL}};

int gcpy_add_tracked(PyObject *module) {
	if ((collector = PyImport_ImportModule("gc")) == NULL)
		return -1;
	return PyModule_AddFunctions(module, functions);
}
