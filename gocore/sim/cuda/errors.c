/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of errors, and tables of functions that NVIDIA's libraries ask for. */
#include "driver.h"

#include <stddef.h>
#include <stdio.h>

static const struct error {
	int number, since; /* the first driver version of those recorded that knows it */
	const char *name, *text;
} errors[] = {
#define ERROR(number, since, name, text) {number, since, #name, text},
#include "errors.h"
};

static const struct error *find_error(int number) {
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].number == number && errors[i].since <= driver_version())
			return &errors[i];
	return NULL;
}

EXPORT CUresult cuGetErrorName(int number, const char **name) {
	if (name == NULL)
		return INVALID_VALUE;
	const struct error *error = find_error(number);
	*name = error != NULL ? error->name : NULL;
	return error != NULL ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(int number, const char **text) {
	if (text == NULL)
		return INVALID_VALUE;
	const struct error *error = find_error(number);
	*text = error != NULL ? error->text : NULL;
	return error != NULL ? SUCCESS : INVALID_VALUE;
}

/*
 * The tables are not public, and the simulator has none. NVIDIA's driver answers so for an identifier that it does not
 * know. NVIDIA's CUDA runtime requests them at its start, and then fails with an error that names nothing, as in CuPy.
 */
EXPORT CUresult cuGetExportTable(const void **table, const unsigned char *identifier) {
	static int said;
	CUresult result = called("cuGetExportTable", 0);
	(void)table, (void)identifier;
	if (result == SUCCESS && !__atomic_exchange_n(&said, 1, __ATOMIC_SEQ_CST))
		fprintf(stderr, "gpuconf: NVIDIA's CUDA runtime, which this program contains or loads, does not start on "
		                "simulated GPUs: it requests "
		                "cuGetExportTable of the driver, which is not documented. docs/simulation.md names the "
		                "libraries that run\n");
	return result != SUCCESS ? result : INVALID_VALUE;
}
