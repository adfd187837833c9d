/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the allocators of other libraries need besides gpuconf_malloc and gpuconf_free. */
#include <stddef.h>
#include <stdint.h>

#include "_cgo_export.h"
#include "abi.h"

int gpuconf_record_stream(void *ptr, void *stream) {
	if (gcgo_refuse())
		return 0;
	return ptr == NULL || gcgo_record_stream((uintptr_t)ptr, (uintptr_t)stream);
}

int gpuconf_logical_stream(int logical, void **stream) {
	uintptr_t own = 0;
	int done = !gcgo_refuse() && gcgo_logical_stream(logical, &own);

	if (stream != NULL)
		*stream = (void *)own;
	return done && stream != NULL;
}

void *gpuconf_region(void *ptr, size_t *size) {
	uintptr_t start = 0;
	size_t bytes = 0;

	if (!gcgo_refuse())
		gcgo_region((uintptr_t)ptr, &start, &bytes);
	if (size != NULL)
		*size = bytes;
	return (void *)start;
}

int gpuconf_trim(void) { return !gcgo_refuse() && gcgo_trim(); }

extern __attribute__((weak)) void *PyErr_Occurred(void); /* without Python there is no CuPy */

/*
 * CuPy's CFunctionAllocator does not pass a stream. param is CuPy's function that returns it. That function needs the
 * GIL, which CuPy holds here. It may fail with a Python error set; then nothing is allocated, because no caller would
 * receive it.
 */
void *gpuconf_cupy_malloc(void *param, size_t size, int device) {
	intptr_t (*current_stream)(void) = NULL;
	void *stream = NULL;

	*(void **)&current_stream = param;
	if (current_stream != NULL) {
		stream = (void *)current_stream();
		if (PyErr_Occurred && PyErr_Occurred())
			return NULL;
	}
	return gcgo_malloc_for(GCGO_CUPY, size, device, stream);
}

void gpuconf_cupy_free(void *param, void *ptr, int device) {
	(void)param;
	gpuconf_free(ptr, 0, device, NULL);
}
