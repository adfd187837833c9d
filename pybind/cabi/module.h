/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that pybind/build/generate.py adds to the generated module, beside its functions. Needs Python.h.
 */
#ifndef GPUCONF_MODULE_H
#define GPUCONF_MODULE_H

#include "abi.h"
#include "../_gpuconf/python.h"

/* What gcpy_refused does, before a function that may allocate, whose stack is noted while the GIL is held. */
static int refused_or_noted(void) {
	if (gcpy_refused())
		return 1;
	if (__atomic_load_n(&gcgo_stacks, __ATOMIC_RELAXED))
		gcgo_note_stack(0);
	return 0;
}

/*
 * Refuses subinterpreters. The core has one state for the process, but each interpreter's Python modules track what is
 * in use separately, so a reset in a second interpreter could free the first one's memory. This function runs in each
 * interpreter that imports the module (a single-phase module would be copied from the first). Python itself refuses the
 * module in an interpreter that has its own GIL.
 */
static int begin_module(PyObject *module) {
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
		return gcpy_add_scope(module) < 0 || gcpy_add_block(module) < 0 || gcpy_add_tracked(module) < 0 ||
		               gcpy_add_nap(module) < 0
		           ? -1
				   : 0;
	PyErr_SetString(PyExc_ImportError,
	    "gpuconf can't be used in a subinterpreter, only in the main interpreter: its compiled core has "
	    "one state for the whole process. Use processes, or threads of the main interpreter");
	return -1;
}

static PyModuleDef_Slot begin_slots[] = {{Py_mod_exec, begin_module}, {0, NULL}};

#endif
