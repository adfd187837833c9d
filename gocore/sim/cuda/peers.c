/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of a GPU to another one's memory. Two cards of one model have it, over NVLink or PCI Express; cards of
 * different models do not (the output of simpleP2P in aikitoria/open-gpu-kernel-modules#5). GeForce RTX cards do not,
 * because NVIDIA's driver excludes them: people change its kernel modules to have it
 * (tinygrad/open-gpu-kernel-modules#28, #29). An NVLink bridge between two RTX 3090 is not simulated. Nor have it
 * instances of MIG, cards that share the CPU's memory, cards with the profile no-peers, and those of FAKECUDA_GPUS.
 *
 * There is one address space here, so copies between GPUs work with peer access or without it, as CUDA's do. Memory of
 * virtual memory management is accessible to the GPUs that cuMemSetAccess names, and memory of a pool to its own and
 * those that cuMemPoolSetAccess names; these have to be its own or peers of it. Copies that name both contexts work
 * between all of them: PyTorch says that only these are right for memory that is not cudaMalloc's
 * (c10/cuda/CUDACachingAllocator.cpp, memcpyAsync).
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"
#include "../../machine/models/spec.h"

#include <string.h>

static int alone(const struct gpu *gpu) {
	return gpu->integrated || (gpu->model != NULL && gpuconf_is_alone(gpu->model, gpu->profile));
}

/* A GPU always has access to its own memory, and is no peer of itself. */
int can_access(CUdevice device, CUdevice memory) {
	const struct gpu *one = &m->gpu[device], *other = &m->gpu[memory];
	return m->cards != NULL && device != memory && one->model == other->model && !alone(one) && !alone(other);
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
	CALLED(cuDeviceCanAccessPeer);
	NEED(can);
	if (unknown_device(device) || unknown_device(peer))
		return INVALID_DEVICE;
	*can = can_access(device, peer);
	return SUCCESS;
}

/* Cards with a bus of 4096 bits or more have NVLink, in the table of models, and with it native atomics. */
EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer) {
	CALLED(cuDeviceGetP2PAttribute);
	enum { NVLINK_BITS = 4096 };
	NEED(value);
	if (unknown_device(device) || unknown_device(peer) || device == peer)
		return INVALID_DEVICE;
	if (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
	    attribute > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
		return INVALID_VALUE;
	*value = attribute != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK && can_access(device, peer);
	if (attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)
		*value = *value && m->gpu[device].model != NULL && m->gpu[device].model->bus_bits >= NVLINK_BITS;
	return SUCCESS;
}

/* Any pointer of the caller's: it is looked for in the list before it is read. */
int is_context(const struct context *context) {
	struct context **link = &m->contexts;
	FIND(link, *link == context);
	return *link != NULL && context->alive;
}

/* Access ends with either context. */
void end_peers(struct context *context) {
	context->peers = 0;
	for (struct context *one = m->contexts; one != NULL; one = one->next)
		one->peers &= ~(UINT64_C(1) << context->gpu);
}

EXPORT CUresult cuCtxEnablePeerAccess(struct context *peer, unsigned flags) {
	CALLED(cuCtxEnablePeerAccess);
	if (flags != 0)
		return INVALID_VALUE;
	IN_CONTEXT;
	if (!is_context(peer))
		return INVALID_CONTEXT;
	if (!can_access(context->gpu, peer->gpu))
		return PEER_ACCESS_UNSUPPORTED;
	uint64_t bit = UINT64_C(1) << peer->gpu;
	if (context->peers & bit)
		return PEER_ACCESS_ALREADY_ENABLED;
	context->peers |= bit;
	return SUCCESS;
}

EXPORT CUresult cuCtxDisablePeerAccess(struct context *peer) {
	CALLED(cuCtxDisablePeerAccess);
	IN_CONTEXT;
	if (!is_context(peer))
		return INVALID_CONTEXT;
	uint64_t bit = UINT64_C(1) << peer->gpu;
	if ((context->peers & bit) == 0)
		return PEER_ACCESS_NOT_ENABLED;
	context->peers &= ~bit;
	return SUCCESS;
}
