/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of CUDA's driver interface that are used here, so that building does not need CUDA.
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
	int type; /* CU_MEM_LOCATION_TYPE_DEVICE */
	int id;   /* the device's ordinal */
} CUmemLocation;

typedef struct {
	int type;                 /* CU_MEM_ALLOCATION_TYPE_PINNED */
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
	int flags; /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
} CUmemAccessDesc;

_Static_assert(sizeof(CUmemAllocationProp) == 32, "CUmemAllocationProp");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "CUmemAccessDesc");

/* What constants.h, which NVIDIA's header was made into, has not. */
enum {
	STREAM_WRITE_VALUE_DEFAULT = 0,
	OUT_OF_HOST_MEMORY = 2,
	STREAM_CAPTURE_INVALIDATED = 901,
};

#endif
