/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of errors, and tables of functions that NVIDIA's libraries ask for. */
#include "driver.h"

#include <stddef.h>

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

/* The tables are not public, and the simulator has none. NVIDIA's driver answers so for an identifier that it does not know. */
EXPORT CUresult cuGetExportTable(const void **table, const unsigned char *identifier) {
	CUresult result = called("cuGetExportTable", 0);
	(void)table, (void)identifier;
	return result != SUCCESS ? result : INVALID_VALUE;
}
