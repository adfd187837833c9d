/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attributes of devices: what the table of models knows, what all devices have in common, and 0 for what the
 * simulator does not do.
 *
 * Textures, arrays and grids: the technical specifications by compute capability in NVIDIA's CUDA C++ Programming
 * Guide. The first CUDA version of each attribute is that of ROCm/HIPIFY's table of CUDA's types.
 */
#include "driver.h"
#include "stream.h"

#include "../../machine/cuda/constants.h"
#include "../../machine/models/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value of Kepler's, and of all later GPUs. */
#define LATER(kepler, later) (limits->major < 6 ? (kepler) : (later))

/* GeForce cards and those of boards without memory of their own have no ECC. */
static int has_ecc(const struct gpu *gpu) { return !gpu->integrated && strstr(gpu->model->product, "GeForce") == NULL; }

/* deviceQuery reports 1 with unified memory, 3 on an A100, H100 and H200, and 2 or more elsewhere, which differs
 * between equal cards. */
static int copy_engines(const struct gpu *gpu) {
	if (gpu->integrated)
		return 1;
	return gpu->major >= 8 && gpu->minor == 0 && gpu->major < 10 ? 3 : 2;
}

/* From Ampere on a part of L2 can be set aside. */
static int has_large_cache(const struct gpu *gpu) { return gpu->major >= 8; }

/* ATTRIBUTE(name, first CUDA version, value), in the order of their numbers. Those from CAN_USE_STREAM_MEM_OPS_V1 on
 * were recorded on an H200 with driver 580 (tests_py/driver/calls). */
#define ATTRIBUTES(ATTRIBUTE) \
	ATTRIBUTE(MAX_THREADS_PER_BLOCK, 0, 1024) \
	ATTRIBUTE(MAX_BLOCK_DIM_X, 0, 1024) \
	ATTRIBUTE(MAX_BLOCK_DIM_Y, 0, 1024) \
	ATTRIBUTE(MAX_BLOCK_DIM_Z, 0, 64) \
	ATTRIBUTE(MAX_GRID_DIM_X, 0, INT_MAX) \
	ATTRIBUTE(MAX_GRID_DIM_Y, 0, 65535) \
	ATTRIBUTE(MAX_GRID_DIM_Z, 0, 65535) \
	ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK, 0, 48 << 10) /* shared memory of a block that does not opt in */ \
	ATTRIBUTE(TOTAL_CONSTANT_MEMORY, 0, 64 << 10) \
	ATTRIBUTE(WARP_SIZE, 0, 32) \
	ATTRIBUTE(MAX_PITCH, 0, INT_MAX) \
	ATTRIBUTE(MAX_REGISTERS_PER_BLOCK, 0, 65536) \
	ATTRIBUTE(CLOCK_RATE, 0, gpu->model->clock_mhz * 1000) \
	ATTRIBUTE(TEXTURE_ALIGNMENT, 0, 512) \
	ATTRIBUTE(GPU_OVERLAP, 0, 1) /* copies beside kernels */ \
	ATTRIBUTE(MULTIPROCESSOR_COUNT, 0, gpu->multiprocessors) \
	ATTRIBUTE(KERNEL_EXEC_TIMEOUT, 0, 0) \
	ATTRIBUTE(INTEGRATED, 0, gpu->integrated) \
	ATTRIBUTE(CAN_MAP_HOST_MEMORY, 0, 1) \
	ATTRIBUTE(COMPUTE_MODE, 0, 0) /* default */ \
	ATTRIBUTE(MAXIMUM_TEXTURE1D_WIDTH, 0, LATER(65536, 131072)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_WIDTH, 0, LATER(65536, 131072)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_HEIGHT, 0, 65536) \
	ATTRIBUTE(MAXIMUM_TEXTURE3D_WIDTH, 0, LATER(4096, 16384)) \
	ATTRIBUTE(MAXIMUM_TEXTURE3D_HEIGHT, 0, LATER(4096, 16384)) \
	ATTRIBUTE(MAXIMUM_TEXTURE3D_DEPTH, 0, LATER(4096, 16384)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 0, LATER(16384, 32768)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 0, LATER(16384, 32768)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 0, 2048) \
	ATTRIBUTE(SURFACE_ALIGNMENT, 0, 512) \
	ATTRIBUTE(CONCURRENT_KERNELS, 0, 1) \
	ATTRIBUTE(ECC_ENABLED, 0, has_ecc(gpu)) \
	ATTRIBUTE(PCI_BUS_ID, 0, gpu->bus) \
	ATTRIBUTE(PCI_DEVICE_ID, 0, 0) \
	ATTRIBUTE(TCC_DRIVER, 0, 0) \
	ATTRIBUTE(MEMORY_CLOCK_RATE, 0, gpu->model->memory_mhz * 1000) \
	ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH, 0, gpu->model->bus_bits) \
	ATTRIBUTE(L2_CACHE_SIZE, 0, gpu->l2_bytes) \
	ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR, 0, limits->threads) \
	ATTRIBUTE(ASYNC_ENGINE_COUNT, 0, copy_engines(gpu)) \
	ATTRIBUTE(UNIFIED_ADDRESSING, 0, 1) \
	ATTRIBUTE(MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 0, LATER(16384, 32768)) \
	ATTRIBUTE(MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 0, 2048) \
	ATTRIBUTE(CAN_TEX2D_GATHER, 0, 1) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_GATHER_WIDTH, 0, LATER(16384, 32768)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 0, LATER(16384, 32768)) \
	ATTRIBUTE(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, 0, LATER(2048, 8192)) \
	ATTRIBUTE(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, 0, LATER(2048, 8192)) \
	ATTRIBUTE(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, 0, LATER(16384, 32768)) \
	ATTRIBUTE(PCI_DOMAIN_ID, 0, 0) \
	ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT, 0, 32) \
	ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_WIDTH, 0, LATER(16384, 32768)) \
	ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 0, LATER(16384, 32768)) \
	ATTRIBUTE(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 0, 2046) \
	ATTRIBUTE(MAXIMUM_SURFACE1D_WIDTH, 0, LATER(65536, 32768)) \
	ATTRIBUTE(MAXIMUM_SURFACE2D_WIDTH, 0, LATER(65536, 131072)) \
	ATTRIBUTE(MAXIMUM_SURFACE2D_HEIGHT, 0, LATER(32768, 65536)) \
	ATTRIBUTE(MAXIMUM_SURFACE3D_WIDTH, 0, LATER(65536, 16384)) \
	ATTRIBUTE(MAXIMUM_SURFACE3D_HEIGHT, 0, LATER(32768, 16384)) \
	ATTRIBUTE(MAXIMUM_SURFACE3D_DEPTH, 0, LATER(2048, 16384)) \
	ATTRIBUTE(MAXIMUM_SURFACE1D_LAYERED_WIDTH, 0, LATER(65536, 32768)) \
	ATTRIBUTE(MAXIMUM_SURFACE1D_LAYERED_LAYERS, 0, 2048) \
	ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_WIDTH, 0, LATER(65536, 32768)) \
	ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 0, 32768) \
	ATTRIBUTE(MAXIMUM_SURFACE2D_LAYERED_LAYERS, 0, 2048) \
	ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_WIDTH, 0, 32768) \
	ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 0, 32768) \
	ATTRIBUTE(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 0, 2046) \
	ATTRIBUTE(MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 0, LATER(1 << 27, 1 << 28)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 0, LATER(65000, 131072)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 0, 65000) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_LINEAR_PITCH, 0, LATER(1048544, 2097120)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 0, LATER(16384, 32768)) \
	ATTRIBUTE(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 0, LATER(16384, 32768)) \
	ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR, 0, gpu->major) \
	ATTRIBUTE(COMPUTE_CAPABILITY_MINOR, 0, gpu->minor) \
	ATTRIBUTE(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 0, LATER(16384, 32768)) \
	ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED, 0, gpu->greatest_priority != 0) \
	ATTRIBUTE(GLOBAL_L1_CACHE_SUPPORTED, 0, 1) \
	ATTRIBUTE(LOCAL_L1_CACHE_SUPPORTED, 0, 1) \
	ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 0, limits->shared_bytes) \
	ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR, 0, limits->registers) \
	ATTRIBUTE(MANAGED_MEMORY, 0, gpu->managed_memory) \
	ATTRIBUTE(MULTI_GPU_BOARD, 0, gpu->major == 3 && gpu->minor == 7) /* a board with several GPUs: K80 */ \
	ATTRIBUTE(MULTI_GPU_BOARD_GROUP_ID, 0, gpu->physical / (gpu->major == 3 && gpu->minor == 7 ? 2 : 1)) \
	ATTRIBUTE(HOST_NATIVE_ATOMIC_SUPPORTED, 0, gpu->model->kind == GPUCONF_COHERENT) \
	ATTRIBUTE(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 0, limits->lanes_for_double) \
	ATTRIBUTE(PAGEABLE_MEMORY_ACCESS, 0, gpu->host_page_tables) \
	ATTRIBUTE(CONCURRENT_MANAGED_ACCESS, 0, gpu->concurrent) \
	ATTRIBUTE(COMPUTE_PREEMPTION_SUPPORTED, 0, gpu->major >= 6) \
	ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0, gpu->major >= 6) \
	ATTRIBUTE(CAN_USE_STREAM_MEM_OPS_V1, 0, gpu->memops &&driver_version() < 12000) \
	ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 0, gpu->memops &&driver_version() < 12000) \
	ATTRIBUTE(CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 0, gpu->memops && gpu->major >= 7 && driver_version() < 12000) \
	ATTRIBUTE(COOPERATIVE_LAUNCH, 0, gpu->major >= 6) \
	ATTRIBUTE(COOPERATIVE_MULTI_DEVICE_LAUNCH, 0, gpu->major >= 6) \
	ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0, limits->shared_bytes_of_block) \
	ATTRIBUTE(CAN_FLUSH_REMOTE_WRITES, 0, 0) \
	ATTRIBUTE(HOST_REGISTER_SUPPORTED, 0, 1) \
	ATTRIBUTE(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0, gpu->host_page_tables) \
	ATTRIBUTE(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0, gpu->model->kind == GPUCONF_COHERENT) \
	ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0, gpu->vmm) \
	ATTRIBUTE(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0, gpu->vmm) \
	ATTRIBUTE(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, 0, 0) \
	ATTRIBUTE(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, 0, 0) \
	ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR, 11000, limits->blocks) \
	ATTRIBUTE(GENERIC_COMPRESSION_SUPPORTED, 11000, gpu->vmm &&has_large_cache(gpu)) \
	ATTRIBUTE(MAX_PERSISTING_L2_CACHE_SIZE, 11000, has_large_cache(gpu) ? gpu->l2_bytes / 16 * 10 : 0) \
	ATTRIBUTE(MAX_ACCESS_POLICY_WINDOW_SIZE, 11000, has_large_cache(gpu) ? 128 << 20 : 0) \
	ATTRIBUTE(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 11000, gpu->vmm && !gpu->integrated) \
	ATTRIBUTE(RESERVED_SHARED_MEMORY_PER_BLOCK, 11000, gpu->major >= 8 ? 1024 : 0) \
	ATTRIBUTE(SPARSE_CUDA_ARRAY_SUPPORTED, 11010, 1) \
	ATTRIBUTE(READ_ONLY_HOST_REGISTER_SUPPORTED, 11010, 1) \
	ATTRIBUTE(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 11020, 1) \
	ATTRIBUTE(MEMORY_POOLS_SUPPORTED, 11020, 1) \
	ATTRIBUTE(GPU_DIRECT_RDMA_SUPPORTED, 11030, gpu->vmm && !gpu->integrated) \
	ATTRIBUTE(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 11030, gpu->vmm && !gpu->integrated) \
	ATTRIBUTE(GPU_DIRECT_RDMA_WRITES_ORDERING, 11030, gpu->major >= 9 ? 100 : 0) \
	ATTRIBUTE(MEMPOOL_SUPPORTED_HANDLE_TYPES, 11030, 1) /* pools that other processes import, by descriptors */ \
	ATTRIBUTE(CLUSTER_LAUNCH, 11080, gpu->major >= 9) \
	ATTRIBUTE(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 11060, 1) \
	ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS, 11070, gpu->memops) \
	ATTRIBUTE(CAN_USE_STREAM_WAIT_VALUE_NOR, 11070, gpu->memops && gpu->major >= 7) \
	ATTRIBUTE(DMA_BUF_SUPPORTED, 11070, gpu->vmm && !gpu->integrated) \
	ATTRIBUTE(IPC_EVENT_SUPPORTED, 12000, m->shared != NULL) \
	ATTRIBUTE(MEM_SYNC_DOMAIN_COUNT, 12000, gpu->major >= 9 ? 4 : 1) \
	ATTRIBUTE(TENSOR_MAP_ACCESS_SUPPORTED, 12000, gpu->major >= 9) \
	ATTRIBUTE(HANDLE_TYPE_FABRIC_SUPPORTED, 12030, 0) \
	ATTRIBUTE(UNIFIED_FUNCTION_POINTERS, 12000, 1) \
	ATTRIBUTE(NUMA_CONFIG, 12020, 0) \
	ATTRIBUTE(NUMA_ID, 12020, -1) /* none is known */ \
	ATTRIBUTE(MULTICAST_SUPPORTED, 12010, 0) \
	ATTRIBUTE(MPS_ENABLED, 12030, (gpu->profile & GPUCONF_MPS) != 0) \
	ATTRIBUTE(HOST_NUMA_ID, 12020, 0) \
	ATTRIBUTE(D3D12_CIG_SUPPORTED, 12050, 0) \
	ATTRIBUTE(MEM_DECOMPRESS_ALGORITHM_MASK, 12080, 0) \
	ATTRIBUTE(MEM_DECOMPRESS_MAXIMUM_LENGTH, 12080, 0) \
	ATTRIBUTE(VULKAN_CIG_SUPPORTED, 12090, 0) \
	ATTRIBUTE(GPU_PCI_DEVICE_ID, 12090, 0) \
	ATTRIBUTE(GPU_PCI_SUBSYSTEM_ID, 12090, 0) \
	ATTRIBUTE(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 12090, gpu->vmm) \
	ATTRIBUTE(HOST_NUMA_MEMORY_POOLS_SUPPORTED, 12090, gpu->vmm && !gpu->integrated) \
	ATTRIBUTE(HOST_NUMA_MULTINODE_IPC_SUPPORTED, 13000, 0) \
	ATTRIBUTE(HOST_MEMORY_POOLS_SUPPORTED, 13000, gpu->major >= 9) \
	ATTRIBUTE(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 13000, gpu->vmm) \
	ATTRIBUTE(HOST_ALLOC_DMA_BUF_SUPPORTED, 13000, 0) \
	ATTRIBUTE(ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED, 13000, 0) \
	ATTRIBUTE(ATOMIC_REDUCTION_SUPPORTED, 13010, 0)

/* Returns 0 for what this driver does not know. */
static int attribute_of(const struct gpu *gpu, int attribute, int *value) {
	const struct gpuconf_capability *limits = gpu->limits;
	int since = 0;
	switch (attribute) {
#define CASE(name, version, expression) \
	case CU_DEVICE_ATTRIBUTE_##name: \
		since = version; \
		*value = expression; \
		break;
		ATTRIBUTES(CASE)
#undef CASE
	default:
		return 0;
	}
	return driver_version() >= since;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
	REFUSE(ANY_TIME, value == NULL, INVALID_VALUE);
	CALLED(cuDeviceGetAttribute);
	int answer;
	KNOWN(device);
	if (!attribute_of(&m->gpu[device], attribute, &answer))
		return INVALID_VALUE;
	*value = answer;
	return SUCCESS;
}

/* CUdevprop of CUDA 2. */
struct properties {
	int threads, block[3], grid[3], shared, constant, warp, pitch, registers, clock, texture_alignment;
};

EXPORT CUresult cuDeviceGetProperties(struct properties *out, CUdevice device) {
	CALLED(cuDeviceGetProperties);
	NEEDS(out, device);
	int *field = (int *)out; /* its fields are the first attributes, in their order */
	_Static_assert(
	    sizeof *out == CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT * sizeof *field, "one attribute for each field");
	for (int i = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK; i <= CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT; i++)
		attribute_of(&m->gpu[device], i, &field[i - 1]);
	return SUCCESS;
}

/* An element has up to 16 bytes, and a texture 4 GiB or 2^30 elements. */
EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, int format, unsigned channels, CUdevice device) {
	CALLED_SINCE(11010, cuDeviceGetTexture1DLinearMaxWidth);
	size_t bytes = element_bytes(format); /* 0: no format of a texture */
	if (width == NULL || bytes == 0 || (channels != 1 && channels != 2 && channels != 4))
		return INVALID_VALUE;
	KNOWN(device);
	size_t all = ((size_t)1 << 32) / (bytes * channels);
	*width = all < (size_t)1 << 30 ? all : (size_t)1 << 30;
	return SUCCESS;
}

/* More questions about devices, contexts, streams and events. */

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority);
CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device);

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
	CALLED(cuDeviceComputeCapability);
	NEED(major && minor);
	KNOWN(device);
	*major = m->gpu[device].major;
	*minor = m->gpu[device].minor;
	return SUCCESS;
}

/* [domain]:[bus]:[device].[function], without a function, or without a domain and a function. */
static int read_place(const char *text, unsigned place[4]) {
	memset(place, 0, 4 * sizeof *place);
	if (sscanf(text, "%x:%x:%x.%x", &place[0], &place[1], &place[2], &place[3]) >= 3)
		return 1;
	place[0] = 0;
	return sscanf(text, "%x:%x.%x", &place[1], &place[2], &place[3]) >= 2;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *id) {
	CALLED(cuDeviceGetByPCIBusId);
	char text[64];
	unsigned wanted[4], place[4];
	if (out == NULL || id == NULL || !read_place(id, wanted))
		return INVALID_VALUE;
	for (int i = 0; i < m->gpus; i++)
		if (cuDeviceGetPCIBusId(text, sizeof text, i) == SUCCESS && read_place(text, place) &&
		    memcmp(wanted, place, sizeof place) == 0) {
			*out = i;
			return SUCCESS;
		}
	return INVALID_DEVICE;
}

/* Only Windows has them. */
EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device) {
	CALLED(cuDeviceGetLuid);
	NEED(luid && mask);
	return unknown_device(device) ? INVALID_DEVICE : NOT_SUPPORTED;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || flags > 1, INVALID_VALUE);
	CALLED(cuStreamCreate);
	return cuStreamCreateWithPriority(out, flags, 0);
}

EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamGetFlags);
	IN_STREAM(handle);
	CUresult result = admits(stream);
	*flags = stream != context->legacy && !stream->blocking;
	if (stream->capture == NULL)
		return result;
	stream->capture->spoiled = 1;
	return STREAM_CAPTURE_UNSUPPORTED;
}

EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device) {
	CALLED(cuStreamGetDevice);
	NEED(device);
	IN_STREAM(handle);
	*device = stream->context->gpu;
	return SUCCESS;
}

/* A context's number is its place in the order in which they were made. */
EXPORT CUresult cuCtxGetId(struct context *context, unsigned long long *id) {
	REFUSE(ANY_TIME, id == NULL, INVALID_VALUE);
	CALLED(cuCtxGetId);
	LOCKED;
	CUresult result = context == NULL ? current_context(&context) : INVALID_CONTEXT;
	struct context **link = &m->contexts;
	FIND(link, *link == context);
	if (*link != NULL && (*link)->alive)
		result = SUCCESS;
	if (result != SUCCESS)
		return result;
	*id = 0;
	for (const struct context *older = *link; older != NULL; older = older->next)
		++*id;
	return SUCCESS;
}
