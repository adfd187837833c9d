/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a function of PyTorch is among the callers of the thread, by the addresses that they return to. */
#include "runtime.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

enum { MOST_CALLERS = 128 };

static uintptr_t begins;
static size_t length; /* 0: unknown */

EXPORT void gpuconf_runtime_watch_caller(void *function) {
	Dl_info info;
	const ElfW(Sym) *symbol = NULL;
	if (dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
		return;
	begins = (uintptr_t)function;
	__atomic_store_n(&length, symbol->st_size, __ATOMIC_RELEASE);
}

EXPORT int gpuconf_runtime_has_caller(void) {
	void *callers[MOST_CALLERS];
	size_t bytes = __atomic_load_n(&length, __ATOMIC_ACQUIRE);
	int count = bytes == 0 ? 0 : backtrace(callers, MOST_CALLERS);
	for (int i = 0; i < count; i++)
		if ((uintptr_t)callers[i] - begins < bytes)
			return 1;
	return 0;
}
