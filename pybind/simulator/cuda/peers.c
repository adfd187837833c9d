/* SPDX-License-Identifier: Apache-2.0 */
/* Access of a GPU to another one's memory: there is none yet, with the profile no-peers or without it, and every question is answered so. */
#include "driver.h"

static int unknown(CUdevice device) { return device < 0 || device >= m->gpus; }

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
	CALLED(cuDeviceCanAccessPeer);
	if (can == NULL)
		return INVALID_VALUE;
	if (unknown(device) || unknown(peer))
		return INVALID_DEVICE;
	*can = 0;
	return SUCCESS;
}

/* Performance rank, access, native atomics, arrays: all 0. */
EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer) {
	CALLED(cuDeviceGetP2PAttribute);
	enum { FIRST = 1, LAST = 4 };
	if (value == NULL || attribute < FIRST || attribute > LAST)
		return INVALID_VALUE;
	if (unknown(device) || unknown(peer) || device == peer)
		return INVALID_DEVICE;
	*value = 0;
	return SUCCESS;
}

static CUresult to_another(const struct context *peer, CUresult answer) {
	struct context *own;
	LOCK;
	CUresult result = current_context(&own);
	const struct context *one = m->contexts;
	while (one != NULL && one != peer)
		one = one->next;
	if (result == SUCCESS)
		result = one == NULL || !one->alive || one == own ? INVALID_CONTEXT : answer;
	UNLOCK;
	return result;
}

EXPORT CUresult cuCtxEnablePeerAccess(struct context *peer, unsigned flags) {
	CALLED(cuCtxEnablePeerAccess);
	return flags != 0 ? INVALID_VALUE : to_another(peer, PEER_ACCESS_UNSUPPORTED);
}

EXPORT CUresult cuCtxDisablePeerAccess(struct context *peer) {
	CALLED(cuCtxDisablePeerAccess);
	return to_another(peer, PEER_ACCESS_NOT_ENABLED);
}
