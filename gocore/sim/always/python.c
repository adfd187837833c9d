/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts gpuconf in a Python: before its program, or before the first import of a library that uses GPUs if that comes
 * earlier. No option of Python and no variable turns an audit hook of C off. What has started already, by PYTHONPATH or
 * the .pth file, does not start again.
 */
#include "always.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void *Object; /* only CPython's stable functions are used, of whatever version is there */
typedef int Hook(const char *event, Object arguments, void *data);

typedef struct {
	void *context;
	void *(*malloc)(void *, size_t);
	void *(*calloc)(void *, size_t, size_t);
	void *(*realloc)(void *, void *, size_t);
	void (*free)(void *, void *);
} Allocator;

/* Python's functions that are called here: what each returns, its name and its parameters. */
#define FUNCTIONS(X) \
	X(int, PySys_AddAuditHook, (Hook *, void *)) \
	X(Object, Py_CompileString, (const char *code, const char *name, int start)) \
	X(Object, PyEval_EvalCode, (Object code, Object globals, Object locals)) \
	X(Object, PyEval_GetBuiltins, (void)) \
	X(Object, PyDict_New, (void)) \
	X(int, PyDict_SetItemString, (Object, const char *, Object)) \
	X(Object, PyUnicode_FromString, (const char *)) \
	X(Object, PyUnicode_DecodeFSDefault, (const char *)) \
	X(const char *, PyUnicode_AsUTF8, (Object)) \
	X(Object, PyTuple_GetItem, (Object, ssize_t)) \
	X(void, PyErr_Clear, (void)) \
	X(void, Py_DecRef, (Object)) \
	X(void, PyMem_GetAllocator, (int, Allocator *)) \
	X(void, PyMem_SetAllocator, (int, const Allocator *)) \
	X(int, Py_IsInitialized, (void))
#define POINTER(result, name, parameters) result(*name) parameters;
#define NAME(result, name, parameters) #name,
static struct {
	FUNCTIONS(POINTER)
} py;
static const char *const names[] = {FUNCTIONS(NAME)}; /* in the order of py's pointers */

enum { RAW = 0 /* the domain of PyMem_RawMalloc */, FILE_INPUT = 257 /* of Py_CompileString: a module */ };

/* If it fails, a program without such a library goes on; one that imports one ends before it can compute on the CPU. */
static const char code[] =
    "import sys\n"
    "try:\n"
    "    started = sys.modules.get('gpuconf_startup')\n"
    "    if started is None:\n"
    "        sys.path.insert(0, folder)\n"
    "        try:\n"
    "            import gpuconf_startup as started\n"
    "        finally:\n"
    "            sys.path.remove(folder)\n"
    "    started.activate()\n"
    "except BaseException as error:\n"
    "    if library:\n"
    "        import posix\n"
    "        for stream in (sys.stdout, sys.stderr):\n"
    "            if stream is not None:\n"
    "                stream.flush()\n"
    "        why = f'{type(error).__name__}: {error}'\n"
    "        text = f'gpuconf: {sys.executable} sees no simulated GPUs for {library}: {why}\\n'\n"
    "        posix.write(2, text.encode('utf-8', 'backslashreplace'))\n"
    "        posix._exit(1)\n";

static int watched, started, starting;

static void set(Object globals, const char *name, Object value) {
	py.PyDict_SetItemString(globals, name, value);
	py.Py_DecRef(value);
}

/* In whichever thread holds the interpreter's lock. What fails leaves no error set in the program's Python. */
static void start(const char *library) {
	char folder[4200];
	Object compiled, globals, result = NULL;

	starting = 1; /* the interpreter's lock is held, and what the code itself imports comes here, too */
	snprintf(folder, sizeof folder, "%s/_startup", gpuconf_package);
	globals = py.PyDict_New();
	compiled = py.Py_CompileString(code, "<gpuconf>", FILE_INPUT);
	if (globals != NULL && compiled != NULL) {
		py.PyDict_SetItemString(globals, "__builtins__", py.PyEval_GetBuiltins());
		set(globals, "folder", py.PyUnicode_DecodeFSDefault(folder));
		set(globals, "library", py.PyUnicode_FromString(library));
		result = py.PyEval_EvalCode(compiled, globals, globals);
	}
	if (result == NULL)
		py.PyErr_Clear();
	py.Py_DecRef(result);
	py.Py_DecRef(compiled);
	py.Py_DecRef(globals);
	starting = 0;
	started = 1;
}

/* The first argument of the event "import" is the module's whole name: only packages that use GPUs count. */
static const char *library_of(Object arguments) {
	static const char *const libraries[] = {"torch", "jax", "vllm", "llama_cpp", "tensorflow", "cupy", "numba"};
	Object first = py.PyTuple_GetItem(arguments, 0);
	const char *name = first == NULL ? NULL : py.PyUnicode_AsUTF8(first);

	if (name == NULL) {
		py.PyErr_Clear();
		return NULL;
	}
	for (size_t one = 0; one < sizeof libraries / sizeof *libraries; one++)
		if (strcmp(name, libraries[one]) == 0)
			return libraries[one];
	return NULL;
}

/*
 * Before it starts, Python has not chosen an allocator yet, and it frees the hook's entry with the one that it chose:
 * with that of -X dev it would crash. So the entry is not of any allocator.
 */
static _Alignas(16) char entry[128];
static Allocator allocator;
static int given;

static void *give_entry(void *context, size_t size) {
	(void)context;
	given = size <= sizeof entry;
	return given ? entry : NULL;
}

static void free_all_but_entry(void *context, void *memory) {
	if (memory != entry) {
		allocator.free(context, memory);
		return;
	}
	given = 0;
	py.PyMem_SetAllocator(RAW, &allocator);
}

/* Only of the domain "raw", which audit hooks' entries are of. */
static void change_allocator(void *(*allocate)(void *, size_t), void (*release)(void *, void *)) {
	Allocator changed;

	py.PyMem_GetAllocator(RAW, &allocator);
	changed = allocator;
	if (allocate != NULL)
		changed.malloc = allocate;
	if (release != NULL)
		changed.free = release;
	py.PyMem_SetAllocator(RAW, &changed);
}

/* PySys_AddAuditHook's: it must not raise, so it returns 0 always. */
static int hook(const char *event, Object arguments, void *data) {
	const char *library;

	(void)data;
	if (starting)
		return 0;
	if (!started && strncmp(event, "cpython.run_", 12) == 0)
		start("");
	else if (strcmp(event, "import") == 0 && (library = library_of(arguments)) != NULL)
		start(library); /* again, for the next interpreter of this process */
	else if (strcmp(event, "cpython._PySys_ClearAuditHooks") == 0) {
		if (given)
			change_allocator(NULL, free_all_but_entry);
		watched = started = 0; /* a program may start Python again */
	}
	return 0;
}

int gpuconf_python_is_watched(void) { return watched; }

void gpuconf_watch_python(void *library) {
	void **functions = (void **)&py;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if ((functions[i] = dlsym(library, names[i])) == NULL)
			return; /* no Python, or one before 3.8 */
	watched = 1;
	if (py.Py_IsInitialized()) {
		py.PySys_AddAuditHook(hook, NULL);
		return;
	}
	change_allocator(give_entry, NULL);
	py.PySys_AddAuditHook(hook, NULL);
	py.PyMem_SetAllocator(RAW, &allocator);
}
