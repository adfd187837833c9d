/*
 * What the generated module does besides its functions: pybind/generate.py puts these into it. Needs Python.h.
 */
#ifndef GPUCONF_MODULE_H
#define GPUCONF_MODULE_H

#include "abi.h"

/* Whether Go must not be entered; then with an error that _native.py reads. Comes before every call of Go. */
static int refused(void)
{
	char text[512];

	switch (gcgo_refusal(text, sizeof text)) {
	case GCGO_NONE:
		return 0;
	case GCGO_FORKED:
		PyErr_Format(PyExc_RuntimeError, "\x1e" "FORKED" "\x1e%s", text);
		return 1;
	case GCGO_FEW_THREADS:
		PyErr_Format(PyExc_RuntimeError, "\x1e" "UNAVAILABLE" "\x1e%s", text);
	}
	return 1;
}

/*
 * The core has one state for the process, and Python's side of it, which knows what is in use, is one for an interpreter: a second
 * interpreter could reset the first one's memory away. Run in each interpreter that imports the module (a module of one phase
 * would be copied from the first). One with a lock of its own never gets here: Python refuses by itself.
 */
static int begin_module(PyObject *module)
{
	(void)module;
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
		return 0;
	PyErr_SetString(PyExc_ImportError, "gpuconf can't be used in a subinterpreter, only in the main interpreter: its compiled core has "
					   "one state for the whole process. Use processes, or threads of the main interpreter");
	return -1;
}

static PyModuleDef_Slot begin_slots[] = {{Py_mod_exec, begin_module}, {0, NULL}};

#endif
