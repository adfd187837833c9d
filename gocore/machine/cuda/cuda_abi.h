/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types and constants of CUDA's driver interface that are used here, so that building does not need CUDA.
 * The interface is stable: the layouts and numbers of a versioned function never change.
 */
#ifndef GPUCONF_CUDA_ABI_H
#define GPUCONF_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult; /* 0 is success; gpu.Result names the others */
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUuserObject_st *CUuserObject;
typedef unsigned long long CUmemGenericAllocationHandle;

typedef struct {
	unsigned char bytes[16];
} CUuuid;

typedef struct {
	int type; /* LOCATION_DEVICE */
	int id;   /* the device's ordinal */
} CUmemLocation;

typedef struct {
	int type;                 /* ALLOCATION_PINNED */
	int requestedHandleTypes; /* 0: not shared with other processes */
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct {
	CUmemLocation location;
	int flags; /* ACCESS_READWRITE */
} CUmemAccessDesc;

_Static_assert(sizeof(CUmemAllocationProp) == 32, "CUmemAllocationProp");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "CUmemAccessDesc");

enum {
	LOCATION_DEVICE = 1,
	ALLOCATION_PINNED = 1,
	ACCESS_READWRITE = 3,
	GRANULARITY_MINIMUM = 0,
	GRANULARITY_RECOMMENDED = 1,
	PROC_ADDRESS_LEGACY_STREAM = 1,
	MEM_ATTACH_GLOBAL = 1,
	MEMHOSTALLOC_PORTABLE = 1,
	MEMHOSTALLOC_DEVICEMAP = 2,
	EVENT_DISABLE_TIMING = 2,
	STREAM_WAIT_VALUE_GEQ = 0,
	STREAM_WRITE_VALUE_DEFAULT = 0,
	OUT_OF_HOST_MEMORY = 2,
	STREAM_CAPTURE_INVALIDATED = 901,
	CAPTURE_STATUS_NONE = 0,
	CAPTURE_STATUS_ACTIVE = 1,
	CAPTURE_MODE_RELAXED = 2,
	USER_OBJECT_NO_DESTRUCTOR_SYNC = 1,
	GRAPH_USER_OBJECT_MOVE = 1,

	ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	ATTRIBUTE_INTEGRATED = 18,
	ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
	ATTRIBUTE_MANAGED_MEMORY = 83,
	ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
	ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
	ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
	ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122, /* for the _v2 functions; 93 is for the old ones */
};

#endif
