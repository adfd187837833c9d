/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress. With FAKECUDA_ALIASES in the environment it returns other addresses than dlsym: jumps to the functions, as a driver may
 * have entries of its own.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#if FAKECUDA_VERSION >= 11030
#define PER_THREAD_STREAM 2

/* The base names, each with its forms in the order of their versions. */
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
#define ONE(name, version) {#name, #name, version},
	ONE(cuInit, 2000) ONE(cuDriverGetVersion, 2020) ONE(cuDeviceGet, 2000) ONE(cuDeviceGetCount, 2000) ONE(cuDeviceGetName, 2000)
	ONE(cuDeviceGetAttribute, 2000) ONE(cuDeviceGetPCIBusId, 4010) ONE(cuDeviceGetDefaultMemPool, 11020) ONE(cuDeviceGetMemPool, 11020)
	ONE(cuDeviceSetMemPool, 11020) ONE(cuDeviceGetGraphMemAttribute, 11040) ONE(cuDeviceGraphMemTrim, 11040)
	ONE(cuDevicePrimaryCtxGetState, 7000) ONE(cuDevicePrimaryCtxRetain, 7000) ONE(cuCtxDetach, 2000) ONE(cuCtxFromGreenCtx, 12040)
	ONE(cuCtxGetApiVersion, 3020) ONE(cuCtxGetCurrent, 4000) ONE(cuCtxSetCurrent, 4000) ONE(cuCtxGetDevice, 2000)
	ONE(cuCtxGetStreamPriorityRange, 5050) ONE(cuCtxSetLimit, 3010) ONE(cuGreenCtxCreate, 12040) ONE(cuGreenCtxDestroy, 12040)
	ONE(cuEventCreate, 2000) ONE(cuEventQuery, 2000) ONE(cuEventRecord, 2000) ONE(cuEventSynchronize, 2000)
	ONE(cuGraphAddChildGraphNode, 10000) ONE(cuGraphAddMemAllocNode, 11040) ONE(cuGraphAddMemFreeNode, 11040)
	ONE(cuGraphChildGraphNodeGetGraph, 10000) ONE(cuGraphCreate, 10000) ONE(cuGraphDestroy, 10000) ONE(cuGraphExecDestroy, 10000)
	ONE(cuGraphGetNodes, 10000) ONE(cuGraphInstantiateWithFlags, 11040) ONE(cuGraphInstantiateWithParams, 12000) ONE(cuGraphLaunch, 10000)
	ONE(cuGraphMemAllocNodeGetParams, 11040) ONE(cuGraphMemFreeNodeGetParams, 11040) ONE(cuGraphNodeGetType, 10000)
	ONE(cuGraphRetainUserObject, 11030) ONE(cuGraphUpload, 11010) ONE(cuMemAddressFree, 10020) ONE(cuMemAddressReserve, 10020)
	ONE(cuMemAllocAsync, 11020) ONE(cuMemAllocFromPoolAsync, 11020) ONE(cuMemAllocManaged, 6000) ONE(cuMemCreate, 10020)
	ONE(cuMemExportToShareableHandle, 10020) ONE(cuMemFreeAsync, 11020) ONE(cuMemFreeHost, 2000) ONE(cuMemGetAllocationGranularity, 10020)
	ONE(cuMemGetDefaultMemPool, 13000) ONE(cuMemGetMemPool, 13000) ONE(cuMemSetMemPool, 13000) ONE(cuMemHostAlloc, 2020)
	ONE(cuMemImportFromShareableHandle, 10020) ONE(cuMemMap, 10020) ONE(cuMemMapArrayAsync, 11010) ONE(cuMemPoolCreate, 11020)
	ONE(cuMemPoolDestroy, 11020) ONE(cuMemPoolExportToShareableHandle, 11020) ONE(cuMemPoolGetAttribute, 11020)
	ONE(cuMemPoolImportFromShareableHandle, 11020) ONE(cuMemPoolSetAttribute, 11020) ONE(cuMemPoolTrimTo, 11020) ONE(cuMemRelease, 10020)
	ONE(cuMemRetainAllocationHandle, 11000) ONE(cuMemSetAccess, 10020) ONE(cuMemUnmap, 10020) ONE(cuMemsetD8Async, 3020)
	ONE(cuArrayDestroy, 2000) ONE(cuMipmappedArrayCreate, 5000) ONE(cuMipmappedArrayDestroy, 5000) ONE(cuMulticastCreate, 12010)
	ONE(cuMulticastUnbind, 12010) ONE(cuStreamCreateWithPriority, 5050) ONE(cuStreamEndCapture, 10000) ONE(cuStreamGetCtx, 9020)
	ONE(cuStreamGetId, 12000) ONE(cuStreamGetPriority, 5050) ONE(cuStreamIsCapturing, 10000) ONE(cuStreamQuery, 2000)
	ONE(cuStreamSynchronize, 2000) ONE(cuStreamWaitEvent, 3020) ONE(cuThreadExchangeStreamCaptureMode, 10010) ONE(cuUserObjectCreate, 11030)
	ONE(cuUserObjectRelease, 11030)
	ONE(cuCtxGetCacheConfig, 3020) ONE(cuCtxGetFlags, 7000) ONE(cuCtxGetId, 12000) ONE(cuCtxGetLimit, 3010) ONE(cuCtxSetCacheConfig, 3020)
	ONE(cuDeviceComputeCapability, 2000) ONE(cuDeviceGetByPCIBusId, 4010) ONE(cuDeviceGetLuid, 10000) ONE(cuEventRecordWithFlags, 11010)
	ONE(cuFuncGetAttribute, 2020) ONE(cuFuncGetModule, 11000) ONE(cuFuncGetName, 12030) ONE(cuFuncLoad, 12040) ONE(cuFuncSetAttribute, 9000)
	ONE(cuFuncSetCacheConfig, 3000) ONE(cuKernelGetAttribute, 12000) ONE(cuKernelGetFunction, 12000) ONE(cuKernelGetName, 12030)
	ONE(cuKernelSetAttribute, 12000) ONE(cuLaunchCooperativeKernel, 9000) ONE(cuLaunchHostFunc, 10000) ONE(cuLaunchKernel, 4000)
	ONE(cuLaunchKernelEx, 11060) ONE(cuLibraryGetKernel, 12000) ONE(cuLibraryGetModule, 12000) ONE(cuLibraryLoadData, 12000)
	ONE(cuLibraryLoadFromFile, 12000) ONE(cuLibraryUnload, 12000) {"cuMemAllocHost", "cuMemAllocHost_v2", 3020},
	{"cuMemGetAddressRange", "cuMemGetAddressRange_v2", 3020}, ONE(cuMemGetAllocationPropertiesFromHandle, 10020)
	{"cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2", 3020}, ONE(cuMemHostGetFlags, 2030)
	{"cuMemHostRegister", "cuMemHostRegister_v2", 6050}, ONE(cuMemHostUnregister, 4000) ONE(cuMemcpy, 4000)
	{"cuMemcpy2D", "cuMemcpy2D_v2", 3020}, {"cuMemcpy2DAsync", "cuMemcpy2DAsync_v2", 3020},
	{"cuMemcpy2DUnaligned", "cuMemcpy2DUnaligned_v2", 3020}, {"cuMemcpy3D", "cuMemcpy3D_v2", 3020},
	{"cuMemcpy3DAsync", "cuMemcpy3DAsync_v2", 3020}, ONE(cuMemcpyAsync, 4000) {"cuMemsetD16", "cuMemsetD16_v2", 3020},
	ONE(cuMemsetD16Async, 3020) {"cuMemsetD2D16", "cuMemsetD2D16_v2", 3020}, ONE(cuMemsetD2D16Async, 3020)
	{"cuMemsetD2D32", "cuMemsetD2D32_v2", 3020}, ONE(cuMemsetD2D32Async, 3020) {"cuMemsetD2D8", "cuMemsetD2D8_v2", 3020},
	ONE(cuMemsetD2D8Async, 3020) {"cuMemsetD32", "cuMemsetD32_v2", 3020}, ONE(cuMemsetD32Async, 3020) ONE(cuModuleGetFunction, 2000)
	{"cuModuleGetGlobal", "cuModuleGetGlobal_v2", 3020}, ONE(cuModuleGetLoadingMode, 11070) ONE(cuModuleLoad, 2000) ONE(cuModuleLoadData, 2000)
	ONE(cuModuleLoadDataEx, 2010) ONE(cuModuleLoadFatBinary, 2000) ONE(cuModuleUnload, 2000)
	ONE(cuOccupancyAvailableDynamicSMemPerBlock, 10020) ONE(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050)
	ONE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000) ONE(cuOccupancyMaxPotentialBlockSize, 6050)
	ONE(cuOccupancyMaxPotentialBlockSizeWithFlags, 7000) ONE(cuPointerGetAttribute, 4000) ONE(cuPointerGetAttributes, 7000)
	ONE(cuPointerSetAttribute, 6000) ONE(cuStreamAddCallback, 5000) ONE(cuStreamCreate, 2000) ONE(cuStreamGetDevice, 12080)
	ONE(cuStreamGetFlags, 5050)
#undef ONE
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

static void *exported_as(const char *name, uint64_t flags) {
	Dl_info self;
	void *library = dladdr((void *)enter_machine, &self) != 0 ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL, *function = NULL;
	if (library == NULL)
		return NULL;
	char own[128];
	snprintf(own, sizeof own, "%s_ptsz", name);
	if (flags == PER_THREAD_STREAM)
		function = dlsym(library, own);
	if (function == NULL)
		function = dlsym(library, name);
	dlclose(library);
	return function;
}

enum found { FOUND, UNKNOWN_NAME, VERSION_TOO_OLD };

/*
 * The newest form that the driver has in the requested version, which may be above the driver's own. Exported names with a suffix are not
 * base names, and symbols that the build hides are not found here either. Functions that a build adds are there in every version.
 */
static enum found find(const char *symbol, void **function, int version, uint64_t flags) {
	enum found found = UNKNOWN_NAME;
	int added = strncmp(symbol, "cu", 2) == 0 && strchr(symbol, '_') == NULL;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (strcmp(forms[i].base, symbol) != 0)
			continue;
		added = 0;
		if (forms[i].version > FAKECUDA_VERSION)
			continue;
		void *form = exported_as(forms[i].exported, flags);
		if (forms[i].version <= version)
			*function = form; /* a hidden form is missing: an older one does not stand in for it */
		if (form != NULL)
			found = VERSION_TOO_OLD;
	}
	if (added)
		*function = exported_as(symbol, flags);
	if (*function != NULL)
		found = FOUND;
	if (found == FOUND && getenv("FAKECUDA_ALIASES") != NULL)
		*function = alias(*function);
	return found;
}

/* Works before cuInit, too. */
static CUresult resolve(const char *symbol, void **function, int version, uint64_t flags, enum found *found) {
	CUresult result = called("cuGetProcAddress", 0);
	if (result == SUCCESS && (symbol == NULL || function == NULL || flags > PER_THREAD_STREAM))
		result = INVALID_VALUE;
	if (function != NULL)
		*function = NULL;
	if (result == SUCCESS)
		*found = find(symbol, function, version, flags);
	return result;
}

/* Without a status to write, what is not found is an error. */
EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
	enum found found;
	CUresult result = resolve(symbol, function, version, flags, &found);
	return result == SUCCESS && found != FOUND ? NOT_FOUND : result;
}
#endif

#if FAKECUDA_VERSION >= 12000
EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
	enum found found;
	CUresult result = resolve(symbol, function, version, flags, &found);
	if (result == SUCCESS && status != NULL)
		*status = (int)found;
	return result;
}
#endif
