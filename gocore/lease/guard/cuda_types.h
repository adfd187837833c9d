/* SPDX-License-Identifier: Apache-2.0 */
/* The types of CUDA's driver and of NVML that hooked functions use. */
#ifndef GPUCONF_GUARD_CUDA_TYPES_H
#define GPUCONF_GUARD_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
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

enum { LIMIT_HEAP = 2 }; /* CU_LIMIT_MALLOC_HEAP_SIZE */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;
typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef unsigned long long CUmemGenericAllocationHandle;
#define OWN_STREAM ((CUstream)2) /* CU_STREAM_PER_THREAD */

/* CUmemLocation. A locality domain's id is a struct whose first byte is the device. */
enum { LOCATION_DEVICE = 1, LOCATION_DEVICE_LOCALITY_DOMAIN = 6 };
typedef struct {
	int type;
	int id;
} CUmemLocation;

typedef struct {
	int type, handle_types;
	CUmemLocation location;
	void *win32;
	unsigned char flags[8];
} CUmemAllocationProp;

/* CUmemAllocationHandleType; a fabric handle is 64 bytes that mean the same everywhere. */
enum { HANDLE_DESCRIPTOR = 1, HANDLE_FABRIC = 8, FABRIC_BYTES = 64 };

enum { ALLOCATION_PINNED = 1, ALLOCATION_MANAGED = 2 };
typedef struct {
	int type, handle_types;
	CUmemLocation location;
	void *win32;
	size_t max_size;
	unsigned char rest[56];
} CUmemPoolProps;

enum { POOL_RESERVED = 5, POOL_USED = 7 };   /* CU_MEMPOOL_ATTR_*_MEM_CURRENT */
enum { GRAPH_USED = 0, GRAPH_RESERVED = 2 }; /* CU_GRAPH_MEM_ATTR_*_MEM_CURRENT */
enum { NODE_GRAPH = 4, NODE_MEM_ALLOC = 10, NODE_MEM_FREE = 11 };

typedef struct {
	CUmemPoolProps pool;
	const void *access;
	size_t access_count;
	size_t bytes;
	CUdeviceptr address;
} CUDA_MEM_ALLOC_NODE_PARAMS;

enum { ARRAY_LAYERED = 1, ARRAY_CUBEMAP = 4, ARRAY_SPARSE = 0x40, ARRAY_DEFERRED = 0x80 };
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
enum { SUBRESOURCE_MIPTAIL = 1, OPERATION_MAP = 1, OPERATION_UNMAP = 2 };
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
