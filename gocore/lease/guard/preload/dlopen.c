/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgpuconf-preload.so, for programs that open the driver by its path: dlopen() opens the proxies of this folder in
 * place of the driver's libraries, whatever path it is given. The rest is the guard's, as without preloading.
 *
 * The loader looks at dlopen's return address for the caller's search path and namespace, so the calls go on by a jump.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char proxies[2][4096]; /* of libcuda and of libnvidia-ml; empty if there is none */
static int ready;

__attribute__((visibility("hidden"))) void *gpuconf_next[2]; /* the real dlopen and dlmopen */

static void find_proxy(const char *folder, int length, const char *name, char *path) {
	snprintf(path, sizeof proxies[0], "%.*s/%s", length, folder, name);
	if (access(path, R_OK) != 0)
		*path = 0;
}

static void begin(void) {
	Dl_info self;

	gpuconf_next[0] = dlsym(RTLD_NEXT, "dlopen");
	gpuconf_next[1] = dlsym(RTLD_NEXT, "dlmopen");
	if (dladdr((void *)&ready, &self) != 0 && strrchr(self.dli_fname, '/') != NULL) {
		int length = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
		find_proxy(self.dli_fname, length, "libcuda.so.1", proxies[0]);
		find_proxy(self.dli_fname, length, "libnvidia-ml.so.1", proxies[1]);
	}
	__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
}

/* Threads that begin at the same time write the same. */
__attribute__((visibility("hidden"), used)) const char *gpuconf_preload_path(const char *path) {
	if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
		begin();
	if (path == NULL)
		return path;
	const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
	if (proxies[0][0] != 0 && (strcmp(name, "libcuda.so") == 0 || strncmp(name, "libcuda.so.", 11) == 0))
		return proxies[0];
	if (proxies[1][0] != 0 && (strcmp(name, "libnvidia-ml.so") == 0 || strncmp(name, "libnvidia-ml.so.", 16) == 0))
		return proxies[1];
	return path;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlopen\n.type dlopen, @function\ndlopen:\n"
        "	push %rsi\n	call gpuconf_preload_path\n	pop %rsi\n	mov %rax, %rdi\n	jmp *gpuconf_next(%rip)\n"
        ".size dlopen, .-dlopen\n"
        ".globl dlmopen\n.type dlmopen, @function\ndlmopen:\n"
        "	push %rdi\n	push %rdx\n	sub $8, %rsp\n	mov %rsi, %rdi\n	call gpuconf_preload_path\n"
        "	add $8, %rsp\n	pop %rdx\n	pop %rdi\n	mov %rax, %rsi\n	jmp *gpuconf_next+8(%rip)\n"
        ".size dlmopen, .-dlmopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlopen\n.type dlopen, %function\ndlopen:\n"
        "	stp x1, x30, [sp, #-16]!\n	bl gpuconf_preload_path\n	ldp x1, x30, [sp], #16\n"
        "	adrp x16, gpuconf_next\n	add x16, x16, :lo12:gpuconf_next\n	ldr x16, [x16]\n	br x16\n"
        ".size dlopen, .-dlopen\n"
        ".globl dlmopen\n.type dlmopen, %function\ndlmopen:\n"
        "	stp x0, x30, [sp, #-32]!\n	str x2, [sp, #16]\n	mov x0, x1\n	bl gpuconf_preload_path\n"
        "	mov x1, x0\n	ldr x2, [sp, #16]\n	ldp x0, x30, [sp], #32\n"
        "	adrp x16, gpuconf_next\n	add x16, x16, :lo12:gpuconf_next\n	ldr x16, [x16, #8]\n	br x16\n"
        ".size dlmopen, .-dlmopen\n");
#else
#error "the jumps are written for x86-64 and arm64"
#endif
