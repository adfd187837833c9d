/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and results that the libraries have in common. */
#include "runtime.h"

#include "arguments.h"

#include <stdlib.h>

int succeed(const struct follower *handle, uintptr_t info, int64_t count) {
	if (info == 0 || count <= 0)
		return SUCCESS;
	int result = begin();
	return result != SUCCESS ? result : cuMemsetD8Async((void *)info, 0, (size_t)count * sizeof(int), handle->stream);
}

int make(void **out, size_t bytes) { return out != NULL && (*out = calloc(1, bytes)) != NULL; }
