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
	return gpu->integrated ? 1 : gpu->major >= 8 && gpu->minor == 0 && gpu->major < 10 ? 3 : 2;
}

/* From Ampere on a part of L2 can be set aside. */
static int has_large_cache(const struct gpu *gpu) { return gpu->major >= 8; }

/* ATTRIBUTE(number, first CUDA version, value). Those from 92 on were recorded on an H200 with driver 580
 * (tests_py/driver/calls). */
#define ATTRIBUTES(ATTRIBUTE) \
	ATTRIBUTE(1, 0, 1024) /* threads of a block */ \
	ATTRIBUTE(2, 0, 1024) /* in each dimension */ \
	ATTRIBUTE(3, 0, 1024) \
	ATTRIBUTE(4, 0, 64) \
	ATTRIBUTE(5, 0, INT_MAX) /* blocks of a grid */ \
	ATTRIBUTE(6, 0, 65535) \
	ATTRIBUTE(7, 0, 65535) \
	ATTRIBUTE(8, 0, 48 << 10) /* shared memory of a block that does not opt in */ \
	ATTRIBUTE(9, 0, 64 << 10) /* constant memory */ \
	ATTRIBUTE(10, 0, 32)      /* threads of a warp */ \
	ATTRIBUTE(11, 0, INT_MAX) /* pitch */ \
	ATTRIBUTE(12, 0, 65536)   /* registers of a block */ \
	ATTRIBUTE(13, 0, gpu->model->clock_mhz * 1000) \
	ATTRIBUTE(14, 0, 512) /* alignment of textures */ \
	ATTRIBUTE(15, 0, 1)   /* copies beside kernels */ \
	ATTRIBUTE(16, 0, gpu->multiprocessors) \
	ATTRIBUTE(17, 0, 0) /* a time limit of kernels */ \
	ATTRIBUTE(18, 0, gpu->integrated) \
	ATTRIBUTE(19, 0, 1)                    /* page-locked memory has a device's address */ \
	ATTRIBUTE(20, 0, 0)                    /* compute mode: default */ \
	ATTRIBUTE(21, 0, LATER(65536, 131072)) /* textures */ \
	ATTRIBUTE(22, 0, LATER(65536, 131072)) \
	ATTRIBUTE(23, 0, 65536) \
	ATTRIBUTE(24, 0, LATER(4096, 16384)) \
	ATTRIBUTE(25, 0, LATER(4096, 16384)) \
	ATTRIBUTE(26, 0, LATER(4096, 16384)) \
	ATTRIBUTE(27, 0, LATER(16384, 32768)) \
	ATTRIBUTE(28, 0, LATER(16384, 32768)) \
	ATTRIBUTE(29, 0, 2048) \
	ATTRIBUTE(30, 0, 512) /* alignment of surfaces */ \
	ATTRIBUTE(31, 0, 1)   /* concurrent kernels */ \
	ATTRIBUTE(32, 0, has_ecc(gpu)) \
	ATTRIBUTE(33, 0, gpu->bus) \
	ATTRIBUTE(34, 0, 0) /* PCI device */ \
	ATTRIBUTE(35, 0, 0) /* Windows' TCC driver */ \
	ATTRIBUTE(36, 0, gpu->model->memory_mhz * 1000) \
	ATTRIBUTE(37, 0, gpu->model->bus_bits) \
	ATTRIBUTE(38, 0, gpu->l2_bytes) \
	ATTRIBUTE(39, 0, limits->threads) \
	ATTRIBUTE(40, 0, copy_engines(gpu)) \
	ATTRIBUTE(41, 0, 1)                   /* the device's address is the host's */ \
	ATTRIBUTE(42, 0, LATER(16384, 32768)) /* more textures */ \
	ATTRIBUTE(43, 0, 2048) \
	ATTRIBUTE(44, 0, 1) \
	ATTRIBUTE(45, 0, LATER(16384, 32768)) \
	ATTRIBUTE(46, 0, LATER(16384, 32768)) \
	ATTRIBUTE(47, 0, LATER(2048, 8192)) \
	ATTRIBUTE(48, 0, LATER(2048, 8192)) \
	ATTRIBUTE(49, 0, LATER(16384, 32768)) \
	ATTRIBUTE(50, 0, 0)  /* PCI domain */ \
	ATTRIBUTE(51, 0, 32) /* alignment of a texture's pitch */ \
	ATTRIBUTE(52, 0, LATER(16384, 32768)) \
	ATTRIBUTE(53, 0, LATER(16384, 32768)) \
	ATTRIBUTE(54, 0, 2046) \
	ATTRIBUTE(55, 0, LATER(65536, 32768)) /* surfaces */ \
	ATTRIBUTE(56, 0, LATER(65536, 131072)) \
	ATTRIBUTE(57, 0, LATER(32768, 65536)) \
	ATTRIBUTE(58, 0, LATER(65536, 16384)) \
	ATTRIBUTE(59, 0, LATER(32768, 16384)) \
	ATTRIBUTE(60, 0, LATER(2048, 16384)) \
	ATTRIBUTE(61, 0, LATER(65536, 32768)) \
	ATTRIBUTE(62, 0, 2048) \
	ATTRIBUTE(63, 0, LATER(65536, 32768)) \
	ATTRIBUTE(64, 0, 32768) \
	ATTRIBUTE(65, 0, 2048) \
	ATTRIBUTE(66, 0, 32768) \
	ATTRIBUTE(67, 0, 32768) \
	ATTRIBUTE(68, 0, 2046) \
	ATTRIBUTE(69, 0, LATER(1 << 27, 1 << 28)) /* textures in linear memory */ \
	ATTRIBUTE(70, 0, LATER(65000, 131072)) \
	ATTRIBUTE(71, 0, 65000) \
	ATTRIBUTE(72, 0, LATER(1048544, 2097120)) \
	ATTRIBUTE(73, 0, LATER(16384, 32768)) \
	ATTRIBUTE(74, 0, LATER(16384, 32768)) \
	ATTRIBUTE(75, 0, gpu->major) \
	ATTRIBUTE(76, 0, gpu->minor) \
	ATTRIBUTE(77, 0, LATER(16384, 32768)) \
	ATTRIBUTE(78, 0, gpu->greatest_priority != 0) \
	ATTRIBUTE(79, 0, 1) /* L1 caches */ \
	ATTRIBUTE(80, 0, 1) \
	ATTRIBUTE(81, 0, limits->shared_bytes) \
	ATTRIBUTE(82, 0, limits->registers) \
	ATTRIBUTE(83, 0, gpu->managed_memory) \
	ATTRIBUTE(84, 0, gpu->major == 3 && gpu->minor == 7) /* a board with several GPUs: K80 */ \
	ATTRIBUTE(85, 0, gpu->physical / (gpu->major == 3 && gpu->minor == 7 ? 2 : 1)) \
	ATTRIBUTE(86, 0, gpu->model->kind == GPUCONF_COHERENT) /* atomic operations on the host's memory */ \
	ATTRIBUTE(87, 0, limits->lanes_for_double) \
	ATTRIBUTE(88, 0, gpu->host_page_tables) /* pageable memory is accessible */ \
	ATTRIBUTE(89, 0, gpu->concurrent) \
	ATTRIBUTE(90, 0, gpu->major >= 6) /* preemption */ \
	ATTRIBUTE(91, 0, gpu->major >= 6) /* registered memory has the host's address */ \
	ATTRIBUTE(92, 0, gpu->memops &&driver_version() < 12000) \
	ATTRIBUTE(93, 0, gpu->memops &&driver_version() < 12000) \
	ATTRIBUTE(94, 0, gpu->memops && gpu->major >= 7 && driver_version() < 12000) \
	ATTRIBUTE(95, 0, gpu->major >= 6) /* cooperative launches */ \
	ATTRIBUTE(96, 0, gpu->major >= 6) /* on several devices */ \
	ATTRIBUTE(97, 0, limits->shared_bytes_of_block) \
	ATTRIBUTE(98, 0, 0) \
	ATTRIBUTE(99, 0, 1) /* host memory can be registered */ \
	ATTRIBUTE(100, 0, gpu->host_page_tables) \
	ATTRIBUTE(101, 0, gpu->model->kind == GPUCONF_COHERENT) /* the host accesses managed memory on the device */ \
	ATTRIBUTE(102, 0, gpu->vmm) \
	ATTRIBUTE(103, 0, gpu->vmm) /* exported as a descriptor */ \
	ATTRIBUTE(104, 0, 0) \
	ATTRIBUTE(105, 0, 0) \
	ATTRIBUTE(106, 11000, limits->blocks) \
	ATTRIBUTE(107, 11000, gpu->vmm &&has_large_cache(gpu))                    /* compression */ \
	ATTRIBUTE(108, 11000, has_large_cache(gpu) ? gpu->l2_bytes / 16 * 10 : 0) /* persisting L2 */ \
	ATTRIBUTE(109, 11000, has_large_cache(gpu) ? 128 << 20 : 0) \
	ATTRIBUTE(110, 11000, gpu->vmm && !gpu->integrated) /* memory for GPUDirect RDMA */ \
	ATTRIBUTE(111, 11000, gpu->major >= 8 ? 1024 : 0)   /* shared memory that CUDA takes of each block */ \
	ATTRIBUTE(112, 11010, 1)                            /* sparse arrays */ \
	ATTRIBUTE(113, 11010, 1)                            /* host memory can be registered to be read only */ \
	ATTRIBUTE(114, 11020, 1)                            /* external semaphores with a timeline */ \
	ATTRIBUTE(115, 11020, 1)                            /* memory pools */ \
	ATTRIBUTE(116, 11030, gpu->vmm && !gpu->integrated) /* GPUDirect RDMA, its flushes and its order of writes */ \
	ATTRIBUTE(117, 11030, gpu->vmm && !gpu->integrated) \
	ATTRIBUTE(118, 11030, gpu->major >= 9 ? 100 : 0) \
	ATTRIBUTE(119, 11030, 1)               /* pools that other processes import, by descriptors */ \
	ATTRIBUTE(120, 11080, gpu->major >= 9) /* clusters */ \
	ATTRIBUTE(121, 11060, 1)               /* arrays without memory */ \
	ATTRIBUTE(122, 11070, gpu->memops) \
	ATTRIBUTE(123, 11070, gpu->memops && gpu->major >= 7) \
	ATTRIBUTE(124, 11070, gpu->vmm && !gpu->integrated) /* dma-buf */ \
	ATTRIBUTE(125, 12000, m->shared != NULL)            /* events of other processes */ \
	ATTRIBUTE(126, 12000, gpu->major >= 9 ? 4 : 1)      /* memory synchronization domains */ \
	ATTRIBUTE(127, 12000, gpu->major >= 9)              /* tensor maps */ \
	ATTRIBUTE(128, 12030, 0) \
	ATTRIBUTE(129, 12000, 1) /* one pointer of a function for all devices */ \
	ATTRIBUTE(130, 12020, 0) \
	ATTRIBUTE(131, 12020, -1) /* NUMA nodes: none is known */ \
	ATTRIBUTE(132, 12010, 0) \
	ATTRIBUTE(133, 12030, (gpu->profile & GPUCONF_MPS) != 0) \
	ATTRIBUTE(134, 12020, 0) /* the NUMA node of the host */ \
	ATTRIBUTE(135, 12050, 0) \
	ATTRIBUTE(136, 12080, 0) \
	ATTRIBUTE(137, 12080, 0) \
	ATTRIBUTE(138, 12090, 0) \
	ATTRIBUTE(139, 12090, 0) \
	ATTRIBUTE(140, 12090, 0) \
	ATTRIBUTE(141, 12090, gpu->vmm)                     /* virtual memory management of the host's memory */ \
	ATTRIBUTE(142, 12090, gpu->vmm && !gpu->integrated) /* dma-buf of the host's memory */ \
	ATTRIBUTE(143, 13000, 0) \
	ATTRIBUTE(144, 13000, gpu->major >= 9) /* atomic reductions */ \
	ATTRIBUTE(145, 13000, gpu->vmm) \
	ATTRIBUTE(146, 13000, 0) \
	ATTRIBUTE(147, 13000, 0) \
	ATTRIBUTE(148, 13010, 0)

/* Returns 0 for what this driver does not know. */
static int attribute_of(const struct gpu *gpu, int attribute, int *value) {
	const struct gpuconf_capability *limits = gpu->limits;
	int since = 0;
	switch (attribute) {
#define CASE(number, version, expression) \
	case number: \
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
	if (unknown_device(device))
		return INVALID_DEVICE;
	if (!attribute_of(&m->gpu[device], attribute, &answer))
		return INVALID_VALUE;
	*value = answer;
	return SUCCESS;
}

struct properties {
	int threads, block[3], grid[3], shared, constant, warp, pitch, registers, clock, texture_alignment;
};

EXPORT CUresult cuDeviceGetProperties(struct properties *out, CUdevice device) {
	CALLED(cuDeviceGetProperties);
	static const int attributes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
	_Static_assert(sizeof attributes == sizeof *out, "one attribute for each field");
	NEEDS(out, device);
	int *field = (int *)out;
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		attribute_of(&m->gpu[device], attributes[i], &field[i]);
	return SUCCESS;
}

/* An element has up to 16 bytes, and a texture 4 GiB or 2^30 elements. */
EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, int format, unsigned channels, CUdevice device) {
	CALLED_SINCE(11010, cuDeviceGetTexture1DLinearMaxWidth);
	int bytes = format == 1 || format == 8                    ? 1
	            : format == 2 || format == 9 || format == 16  ? 2
	            : format == 3 || format == 10 || format == 32 ? 4
	                                                          : 0;
	if (width == NULL || bytes == 0 || (channels != 1 && channels != 2 && channels != 4))
		return INVALID_VALUE;
	if (unknown_device(device))
		return INVALID_DEVICE;
	size_t all = ((size_t)1 << 32) / ((size_t)bytes * channels);
	*width = all < (size_t)1 << 30 ? all : (size_t)1 << 30;
	return SUCCESS;
}

/* More questions about devices, contexts, streams and events. */

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority);
CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device);

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
	CALLED(cuDeviceComputeCapability);
	if (major == NULL || minor == NULL)
		return INVALID_VALUE;
	if (unknown_device(device))
		return INVALID_DEVICE;
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

static int is_place(const char *text) {
	unsigned place[4];
	return read_place(text, place);
}

static int same_place(const char *a, const char *b) {
	unsigned x[4], y[4] = {0};
	if (!read_place(a, x))
		return 0;
	return sscanf(b, "%x:%x:%x.%x", &y[0], &y[1], &y[2], &y[3]) >= 3 && memcmp(x, y, sizeof x) == 0;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *id) {
	CALLED(cuDeviceGetByPCIBusId);
	char own[64];
	if (out == NULL || id == NULL || !is_place(id))
		return INVALID_VALUE;
	for (int i = 0; i < m->gpus; i++)
		if (cuDeviceGetPCIBusId(own, sizeof own, i) == SUCCESS && same_place(id, own)) {
			*out = i;
			return SUCCESS;
		}
	return INVALID_DEVICE;
}

/* Only Windows has them. */
EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device) {
	CALLED(cuDeviceGetLuid);
	return luid == NULL || mask == NULL ? INVALID_VALUE : unknown_device(device) ? INVALID_DEVICE : NOT_SUPPORTED;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || flags > 1, INVALID_VALUE);
	CALLED(cuStreamCreate);
	return cuStreamCreateWithPriority(out, flags, 0);
}

EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamGetFlags);
	IN_STREAM(handle, {
		result = admits(stream);
		if (stream->capture != NULL) {
			stream->capture->spoiled = 1;
			result = STREAM_CAPTURE_UNSUPPORTED;
		}
		*flags = stream != context->legacy && !stream->blocking;
	});
}

EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device) {
	CALLED(cuStreamGetDevice);
	if (device == NULL)
		return INVALID_VALUE;
	IN_STREAM(handle, *device = stream->context->gpu);
}

/* A context's number is its place in the order in which they were made. */
EXPORT CUresult cuCtxGetId(struct context *asked, unsigned long long *id) {
	REFUSE(ANY_TIME, id == NULL, INVALID_VALUE);
	CALLED(cuCtxGetId);
	struct context *context = asked;
	LOCK;
	CUresult result = asked == NULL ? current_context(&context) : INVALID_CONTEXT;
	const struct context *one = m->contexts;
	while (one != NULL && one != context)
		one = one->next;
	if (one != NULL && one->alive)
		result = SUCCESS;
	if (result == SUCCESS)
		for (*id = 0; one != NULL; one = one->next)
			++*id;
	UNLOCK;
	return result;
}
