/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Python that a program loads by itself, such as an embedding one, loads its modules by dlopen(). It gets its hook
 * there. PyTorch's libraries in one without a hook, which is older than Python 3.8, end the process.
 *
 * The loader looks at dlopen's return address for the caller's search path, so the call goes on by a jump.
 */
#include "always.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("hidden"))) void *gpuconf_always_next; /* the real dlopen */

__attribute__((visibility("hidden"), used)) const char *gpuconf_always_path(const char *path, void *caller) {
	const char *name = path == NULL || strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1;
	Dl_info from;

	if (gpuconf_always_next == NULL)
		gpuconf_always_next = dlsym(RTLD_NEXT, "dlopen");
	if (gpuconf_package[0] == 0 || name == NULL || gpuconf_python_is_watched())
		return path;
	if (dladdr(caller, &from) != 0) {
		void *library = ((__typeof__(&dlopen))gpuconf_always_next)(from.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		if (library != NULL) {
			gpuconf_watch_python(library);
			dlclose(library);
		}
	}
	if (!gpuconf_python_is_watched() && strncmp(name, "libtorch", 8) == 0 &&
	    dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL) {
		dprintf(2, "gpuconf: PyTorch sees no simulated GPUs in a Python before 3.10\n");
		_exit(1);
	}
	return path;
}

#if defined(__x86_64__)
__asm__(".text\n.globl dlopen\n.type dlopen, @function\ndlopen:\n"
        "	push %rsi\n	mov 8(%rsp), %rsi\n	call gpuconf_always_path\n	pop %rsi\n"
        "	mov %rax, %rdi\n	jmp *gpuconf_always_next(%rip)\n"
        ".size dlopen, .-dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl dlopen\n.type dlopen, %function\ndlopen:\n"
        "	stp x1, x30, [sp, #-16]!\n	mov x1, x30\n"
        "	bl gpuconf_always_path\n	ldp x1, x30, [sp], #16\n"
        "	adrp x16, gpuconf_always_next\n	ldr x16, [x16, :lo12:gpuconf_always_next]\n	br x16\n"
        ".size dlopen, .-dlopen\n");
#else
#error "the jump is written for x86-64 and arm64"
#endif
