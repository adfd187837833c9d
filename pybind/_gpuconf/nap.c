/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeps for processes that wait for a ledger: for its lock, or for their turn.
 *
 * It is C, because a thread that sleeps inside Go keeps Go's monitor awake, which wakes some fifty times in the next 10
 * ms to look after it. With a hundred waiting processes that takes all processors.
 */
#include "python.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_MS = 100, DEAF_MS = 20 };

static int64_t now(void) {
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

/*
 * Sleeps for a time in nanoseconds, until the word is woken, or until a signal. Returns 0 if it slept for all of the
 * time, else what ended the sleep. Only the kernel reads the word: its file may be truncated, and the ledger may be
 * closed meanwhile.
 */
static int sleep_on(const uint32_t *word, uint32_t was, int64_t left) {
	struct timespec most = {left / 1000000000, left % 1000000000};

	if (word == NULL)
		return nanosleep(&most, NULL) == 0 ? 0 : errno;
	if (syscall(SYS_futex, word, FUTEX_WAIT, was, &most, NULL, 0) == 0)
		return EAGAIN;
	return errno == ETIMEDOUT ? 0 : errno;
}

/*
 * nap(words, word, was, milliseconds, deaf): takes a wire.Nap. words is the address from LedgerWords. Signal handlers
 * run; what they raise ends the nap.
 */
static PyObject *nap(PyObject *module, PyObject *args) {
	long long words, milliseconds;
	unsigned int number, was;
	int64_t end, left;
	const uint32_t *word = NULL;
	int deaf, why = 0;

	(void)module;
	if (!PyArg_ParseTuple(args, "LIILp", &words, &number, &was, &milliseconds, &deaf))
		return NULL;
	if (words != 0 && !deaf)
		word = (const uint32_t *)(uintptr_t)words + number;
	end = now() + milliseconds * 1000000;
	while (why != EAGAIN && (left = end - now()) > 0) {
		if (left > SLICE_MS * 1000000)
			left = SLICE_MS * 1000000;
		Py_BEGIN_ALLOW_THREADS why = sleep_on(word, was, left);
		Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0) return NULL;
		if (why != 0 && why != EAGAIN && why != EINTR) { /* the file is unusable, or the ledger closed */
			word = NULL;
			if (end > now() + DEAF_MS * 1000000)
				end = now() + DEAF_MS * 1000000;
		}
	}
	Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"nap", nap, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int gcpy_add_nap(PyObject *module) { return PyModule_AddFunctions(module, functions); }
