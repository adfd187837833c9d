/*
 * cuGetProcAddress. With FAKECUDA_ALIASES in the environment it returns other addresses than dlsym: jumps to the functions, as a driver may
 * have entries of its own.
 */
#include "fake.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#if FAKECUDA_VERSION >= 11030
#define PER_THREAD_STREAM 2

/* Base names with several forms, in the order of their versions. */
static const struct {
	const char *base, *exported;
	int version;
} forms[] = {
	{"cuDeviceGetUuid", "cuDeviceGetUuid", 9020}, {"cuDeviceGetUuid", "cuDeviceGetUuid_v2", 11040},
	{"cuDeviceTotalMem", "cuDeviceTotalMem", 2000}, {"cuDeviceTotalMem", "cuDeviceTotalMem_v2", 3020},
	{"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease", 7000}, {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 11000},
	{"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset", 7000}, {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2", 11000},
	{"cuCtxCreate", "cuCtxCreate", 2000}, {"cuCtxCreate", "cuCtxCreate_v2", 3020}, {"cuCtxCreate", "cuCtxCreate_v3", 11040},
	{"cuCtxCreate", "cuCtxCreate_v4", 12050}, {"cuCtxDestroy", "cuCtxDestroy", 2000}, {"cuCtxDestroy", "cuCtxDestroy_v2", 4000},
	{"cuCtxSynchronize", "cuCtxSynchronize", 2000}, {"cuCtxSynchronize", "cuCtxSynchronize_v2", 13000},
	{"cuCtxPushCurrent", "cuCtxPushCurrent_v2", 4000}, {"cuCtxPopCurrent", "cuCtxPopCurrent_v2", 4000},
	{"cuMemGetInfo", "cuMemGetInfo", 2000}, {"cuMemGetInfo", "cuMemGetInfo_v2", 3020},
	{"cuMemAlloc", "cuMemAlloc", 2000}, {"cuMemAlloc", "cuMemAlloc_v2", 3020},
	{"cuMemAllocPitch", "cuMemAllocPitch", 2000}, {"cuMemAllocPitch", "cuMemAllocPitch_v2", 3020},
	{"cuMemFree", "cuMemFree", 2000}, {"cuMemFree", "cuMemFree_v2", 3020},
	{"cuArrayCreate", "cuArrayCreate", 2000}, {"cuArrayCreate", "cuArrayCreate_v2", 3020},
	{"cuArray3DCreate", "cuArray3DCreate", 2000}, {"cuArray3DCreate", "cuArray3DCreate_v2", 3020},
	{"cuMemcpyHtoD", "cuMemcpyHtoD_v2", 3020}, {"cuMemcpyDtoH", "cuMemcpyDtoH_v2", 3020}, {"cuMemcpyDtoD", "cuMemcpyDtoD_v2", 3020},
	{"cuMemsetD8", "cuMemsetD8_v2", 3020}, {"cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", 3020},
	{"cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 3020}, {"cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2", 3020},
	{"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo", 10010}, {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030},
	{"cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010},
	{"cuGraphInstantiate", "cuGraphInstantiate", 10000}, {"cuGraphInstantiate", "cuGraphInstantiate_v2", 11000},
	{"cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000},
	{"cuStreamDestroy", "cuStreamDestroy_v2", 4000}, {"cuEventDestroy", "cuEventDestroy_v2", 4000},
	{"cuStreamWriteValue64", "cuStreamWriteValue64_v2", 11070}, {"cuStreamWaitValue64", "cuStreamWaitValue64_v2", 11070},
	{"cuMulticastBindMem", "cuMulticastBindMem", 12010}, {"cuMulticastBindMem", "cuMulticastBindMem_v2", 13010},
	{"cuMulticastBindAddr", "cuMulticastBindAddr", 12010}, {"cuMulticastBindAddr", "cuMulticastBindAddr_v2", 13010},
	{"cuGetProcAddress", "cuGetProcAddress", 11030}, {"cuGetProcAddress", "cuGetProcAddress_v2", 12000},
};

#define MAX_ALIASES 512

/* One jump for each function, always the same. */
static void *alias(void *function) {
	static struct {
		void *function;
		unsigned char code[24];
	} *aliases;
	static int count;
	void *found = NULL;
	LOCK;
	if (aliases == NULL)
		aliases = mmap(NULL, MAX_ALIASES * sizeof *aliases, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < count; i++)
		if (aliases[i].function == function)
			found = aliases[i].code;
	if (found == NULL && count < MAX_ALIASES) {
#if defined(__x86_64__)
		const unsigned char jump[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* mov rax, function; jmp rax */
		const int operand = 2;
#else
		const unsigned char jump[] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6, 0, 0, 0, 0, 0, 0, 0, 0}; /* ldr x16, +8; br x16; function */
		const int operand = 8;
#endif
		found = aliases[count].code;
		aliases[count].function = function;
		memcpy(aliases[count].code, jump, sizeof jump);
		memcpy(aliases[count].code + operand, &function, sizeof function);
		__builtin___clear_cache((char *)found, (char *)found + sizeof aliases->code);
		count++;
	}
	UNLOCK;
	return found;
}

/* Symbols that the build hides are not found here either. */
static CUresult resolve(const char *symbol, void **function, int version, uint64_t flags, int *status) {
	CUresult result = called("cuGetProcAddress", 0);
	*function = NULL;
	if (result != SUCCESS || version > FAKECUDA_VERSION)
		return result != SUCCESS ? result : INVALID_VALUE;
	const char *exported = NULL;
	int known = 0;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (strcmp(forms[i].base, symbol) == 0) {
			known = 1;
			if (forms[i].version <= version)
				exported = forms[i].exported;
		}
	}
	if (!known)
		exported = symbol;
	Dl_info self;
	void *library = dladdr((void *)&fake, &self) != 0 ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (library != NULL && exported != NULL) {
		char own[128];
		snprintf(own, sizeof own, "%s_ptsz", exported);
		if (flags & PER_THREAD_STREAM)
			*function = dlsym(library, own);
		if (*function == NULL)
			*function = dlsym(library, exported);
		dlclose(library);
	}
	if (*function != NULL && getenv("FAKECUDA_ALIASES") != NULL)
		*function = alias(*function);
	if (status != NULL)
		*status = *function != NULL ? 0 : 1;
	return SUCCESS;
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
	return resolve(symbol, function, version, flags, NULL);
}
#endif

#if FAKECUDA_VERSION >= 12000
EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
	return resolve(symbol, function, version, flags, status);
}
#endif
