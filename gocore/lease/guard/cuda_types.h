/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of CUDA's driver and of NVML that hooked functions use, beside those of machine/cuda. Their constants are
 * in machine/cuda/constants.h.
 */
#ifndef GPUCONF_GUARD_CUDA_TYPES_H
#define GPUCONF_GUARD_CUDA_TYPES_H

#include "../../machine/cuda/cuda_abi.h"

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_NOT_SUPPORTED = 801,
};

typedef unsigned int CUdeviceptr_v1;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraphExec_st *CUgraphExec;
#define OWN_STREAM ((CUstream)2) /* CU_STREAM_PER_THREAD */

/* Of CUmemLocation. A locality domain's id is a struct whose first byte is the device. Drivers of CUDA 13.3 have the
 * type, and constants.h, of 13.2, has not. */
enum { LOCATION_DEVICE_LOCALITY_DOMAIN = 6 };

enum { FABRIC_BYTES = 64 }; /* of a handle of CU_MEM_HANDLE_TYPE_FABRIC, which means the same everywhere */

typedef struct {
	int type, handle_types;
	CUmemLocation location;
	void *win32;
	size_t max_size;
	unsigned char rest[56];
} CUmemPoolProps;

typedef struct {
	CUmemPoolProps pool;
	const void *access;
	size_t access_count;
	size_t bytes;
	CUdeviceptr address;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
	unsigned int width, height;
	int format;
	unsigned int channels;
} CUDA_ARRAY_DESCRIPTOR_v1;
typedef struct {
	size_t width, height;
	int format;
	unsigned int channels;
} CUDA_ARRAY_DESCRIPTOR;
typedef struct {
	unsigned int width, height, depth;
	int format;
	unsigned int channels, flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;
typedef struct {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
} CUDA_ARRAY3D_DESCRIPTOR;

/* CUarrayMapInfo: a tile of a sparse array, and the physical memory behind it. */
typedef struct {
	int resource_type;
	void *resource;
	int subresource_type;
	union {
		unsigned int level[8]; /* level, layer, offset and extent */
		struct {
			unsigned int layer;
			unsigned long long offset, size;
		} miptail;
	} subresource;
	int operation, handle_type;
	CUmemGenericAllocationHandle handle;
	unsigned long long offset;
	unsigned int device_mask, flags, reserved[2];
} CUarrayMapInfo;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory;
typedef struct {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2;

#endif
