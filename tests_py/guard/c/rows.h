/*
 * Every way to take device memory and to free it, with nothing but the driver's functions: a row each, for the programs
 * of these tests.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ull << 20)

typedef struct {
	int type, id;
} location;
typedef struct {
	int type, handle_types;
	location location;
	void *other;
	unsigned char flags[8];
} allocation_prop;
typedef struct {
	int type, handle_types;
	location location;
	void *other;
	size_t most;
	unsigned char rest[56];
} pool_props;
typedef struct {
	pool_props pool;
	const void *access;
	size_t access_count, bytes;
	uint64_t address;
} node_params;
typedef struct {
	size_t width, height;
	int format;
	unsigned channels;
} shape;
typedef struct {
	unsigned width, height;
	int format;
	unsigned channels;
} shape_v1;
typedef struct {
	size_t width, height, depth;
	int format;
	unsigned channels, flags;
} shape3d;
typedef struct {
	unsigned width, height, depth;
	int format;
	unsigned channels, flags;
} shape3d_v1;
typedef struct {
	uint64_t flags;
	void *upload, *node;
	int result;
} instantiation;
typedef struct {
	unsigned devices;
	size_t bytes;
	unsigned long long handle_types, flags;
} multicast_prop;
typedef struct {
	int resource_type;
	void *resource;
	int subresource_type;
	unsigned long long subresource[4];
	int operation, handle_type;
	uint64_t handle, offset;
	unsigned mask, flags, reserved[2];
} array_map;

/* Base name, version and flag for the resolver of each function, and those that the rows need. */
#define ANY 0
#define LEGACY 0
#define PER_THREAD 2
#define FORM(base, name, version, streams) \
	enum { VERSION_##name = version, FLAG_##name = streams }; \
	static const char BASE_##name[] = #base;
#include "../../../gocore/sim/cuda/functions.h"
/* clang-format off */
#define FUNCTIONS(X) \
	X(cuInit) X(cuDeviceGetCount) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) \
	X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxReset_v2) X(cuCtxSetCurrent) \
	X(cuCtxCreate) X(cuCtxCreate_v2) X(cuCtxCreate_v3) X(cuCtxCreate_v4) X(cuCtxDestroy) X(cuCtxDestroy_v2) \
	X(cuCtxDetach) X(cuCtxPopCurrent_v2) X(cuCtxSynchronize) X(cuMemGetInfo) X(cuMemGetInfo_v2) \
	X(cuDeviceTotalMem) X(cuDeviceTotalMem_v2) X(cuMemAlloc) X(cuMemAlloc_v2) X(cuMemFree) X(cuMemFree_v2) \
	X(cuMemAllocPitch) X(cuMemAllocPitch_v2) X(cuMemAllocManaged) X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz) \
	X(cuMemFreeAsync) X(cuMemFreeAsync_ptsz) X(cuMemAllocFromPoolAsync) X(cuMemAllocFromPoolAsync_ptsz) \
	X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolTrimTo) X(cuMemPoolSetAttribute) X(cuDeviceSetMemPool) \
	X(cuDeviceGetDefaultMemPool) X(cuStreamSynchronize) X(cuStreamSynchronize_ptsz) \
	X(cuStreamCreateWithPriority) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) X(cuMemCreate) \
	X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemAddressReserve) X(cuMemAddressFree) \
	X(cuMemRetainAllocationHandle) X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle) \
	X(cuMemMapArrayAsync) X(cuMemMapArrayAsync_ptsz) X(cuMulticastCreate) X(cuMulticastAddDevice) \
	X(cuMulticastBindMem) X(cuMulticastUnbind) X(cuMulticastBindAddr) X(cuMulticastBindMem_v2) \
	X(cuMulticastBindAddr_v2) X(cuMemSetMemPool) X(cuMemGetMemPool) X(cuMemGetDefaultMemPool) \
	X(cuCtxSynchronize_v2) X(cuArrayCreate) X(cuArrayCreate_v2) X(cuArray3DCreate) X(cuArray3DCreate_v2) \
	X(cuArrayDestroy) X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy) X(cuGraphCreate) X(cuGraphDestroy) \
	X(cuGraphAddChildGraphNode) X(cuGraphAddMemAllocNode) X(cuGraphAddMemFreeNode) X(cuGraphInstantiate) \
	X(cuGraphInstantiate_v2) X(cuGraphInstantiateWithFlags) X(cuGraphInstantiateWithParams) \
	X(cuGraphInstantiateWithParams_ptsz) X(cuGraphUpload) X(cuGraphUpload_ptsz) X(cuGraphLaunch) \
	X(cuGraphLaunch_ptsz) X(cuGraphExecDestroy) X(cuDeviceGraphMemTrim)
/* clang-format on */
#ifdef LINKED
#define DECLARE(name) extern int name() __attribute__((weak));
FUNCTIONS(DECLARE)
#endif

static struct {
#define FIELD(name) int (*name)();
	FUNCTIONS(FIELD)
} cu;
static void (*fail)(const char *, unsigned long, int), (*clear)(void);
static unsigned long (*fired)(void);
static int (*figures)(const unsigned char *, uint64_t *);
static void *context;

static void find(const char *way) {
	const char *path = strcmp(way, "path") == 0 ? getenv("DRIVER") : "libcuda.so.1";
	void *library = dlopen(path, RTLD_LAZY | (strcmp(way, "default") == 0 ? RTLD_GLOBAL : RTLD_LOCAL)),
	     *where = library;
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(3);
	}
	if (strcmp(way, "default") == 0)
		where = RTLD_DEFAULT;
	*(void **)&fail = dlsym(library, "fakecuda_fail");
	*(void **)&clear = dlsym(library, "fakecuda_clear");
	*(void **)&fired = dlsym(library, "fakecuda_fired");
	*(void **)&figures = dlsym(library, "gpuconf_guard_figures");
	if (strcmp(way, "linked") == 0) {
#ifdef LINKED
#define LINK(name) cu.name = name;
		FUNCTIONS(LINK)
#endif
		return;
	}
	int (*ask)(const char *, void **, int, uint64_t) = NULL;
	int (*ask2)(const char *, void **, int, uint64_t, int *) = NULL;
	if (strncmp(way, "resolver", 8) == 0)
		*(void **)&ask = dlsym(library, "cuGetProcAddress");
	if (strcmp(way, "resolver2") == 0) {
		ask("cuGetProcAddress", (void **)&ask2, 12000, 0);
		ask = NULL;
	}
#define FIND(name) \
	if (ask2 != NULL) { \
		int status; \
		ask2(BASE_##name, (void **)&cu.name, VERSION_##name, FLAG_##name, &status); \
	} else if (ask != NULL) { \
		ask(BASE_##name, (void **)&cu.name, VERSION_##name, FLAG_##name); \
	} else { \
		*(void **)&cu.name = dlsym(where, #name); \
	}
	FUNCTIONS(FIND)
}

/* What a row's allocation holds; bytes is the requested size, a multiple of 2 MiB. */
struct object {
	uint64_t a, b, bytes, multicast;
	void *p, *q;
};

/* Ends the injected failures, so that what was half done can be undone. */
static void calm(void) {
	if (clear != NULL)
		clear();
}

static int take_linear(struct object *o) { return cu.cuMemAlloc_v2(&o->a, (size_t)o->bytes); }
static int drop_linear(struct object *o) { return cu.cuMemFree_v2(o->a); }
static int drop_ordered(struct object *o) { return cu.cuMemFreeAsync(o->a, NULL); }
static int take_linear_v1(struct object *o) { return cu.cuMemAlloc((unsigned *)&o->a, (unsigned)o->bytes); }
static int drop_linear_v1(struct object *o) { return cu.cuMemFree((unsigned)o->a); }
static int take_pitch(struct object *o) {
	size_t pitch;
	return cu.cuMemAllocPitch_v2(&o->a, &pitch, (size_t)(65536 - 100), (size_t)(o->bytes / 65536), 4u);
}
static int take_pitch_v1(struct object *o) {
	unsigned pitch;
	return cu.cuMemAllocPitch((unsigned *)&o->a, &pitch, 65536u - 100, (unsigned)(o->bytes / 65536), 4u);
}
static int take_managed(struct object *o) { return cu.cuMemAllocManaged(&o->a, (size_t)o->bytes, 1u); }
static int take_async(struct object *o) { return cu.cuMemAllocAsync(&o->a, (size_t)o->bytes, NULL); }
static int drop_async(struct object *o) {
	int result = cu.cuMemFreeAsync(o->a, NULL);
	if (result == 0) {
		calm();
		cu.cuStreamSynchronize(NULL);
	}
	return result;
}
static int take_async_ptsz(struct object *o) { return cu.cuMemAllocAsync_ptsz(&o->a, (size_t)o->bytes, NULL); }
static int drop_async_ptsz(struct object *o) {
	int result = cu.cuMemFreeAsync_ptsz(o->a, NULL);
	if (result == 0) {
		calm();
		cu.cuStreamSynchronize_ptsz(NULL);
	}
	return result;
}

static void *pool;
static int make_pool(void) {
	pool_props props = {.type = 1, .location = {1, 0}};
	return pool != NULL ? 0 : cu.cuMemPoolCreate(&pool, &props);
}
static int take_pool(struct object *o) {
	int result = make_pool();
	return result != 0 ? result : cu.cuMemAllocFromPoolAsync(&o->a, (size_t)o->bytes, pool, NULL);
}
static int take_pool_ptsz(struct object *o) {
	int result = make_pool();
	return result != 0 ? result : cu.cuMemAllocFromPoolAsync_ptsz(&o->a, (size_t)o->bytes, pool, NULL);
}
/* A pool of its own, which is destroyed before its memory is freed. */
static int take_orphan(struct object *o) {
	pool_props props = {.type = 1, .location = {1, 0}};
	int result = cu.cuMemPoolCreate(&o->p, &props);
	if (result != 0)
		return result;
	result = cu.cuMemAllocFromPoolAsync(&o->a, (size_t)o->bytes, o->p, NULL);
	calm();
	cu.cuMemPoolDestroy(o->p);
	return result;
}
static int take_set_pool(struct object *o) {
	int result = make_pool();
	void *standard;
	if (result == 0)
		result = cu.cuDeviceSetMemPool(0, pool);
	if (result == 0)
		result = cu.cuMemAllocAsync(&o->a, (size_t)o->bytes, NULL);
	calm();
	cu.cuDeviceGetDefaultMemPool(&standard, 0);
	cu.cuDeviceSetMemPool(0, standard);
	return result;
}

/* By the functions that set and read the pool of a location, which CUDA 13 has. */
static int take_location(struct object *o) {
	location where = {1, 0};
	void *standard, *now = NULL;
	int result = make_pool();
	if (result == 0)
		result = cu.cuMemSetMemPool(&where, 1, pool);
	if (result == 0)
		result = cu.cuMemGetMemPool(&now, &where, 1);
	if (result == 0)
		result = now == pool ? cu.cuMemAllocAsync(&o->a, (size_t)o->bytes, NULL) : -1;
	calm();
	cu.cuMemGetDefaultMemPool(&standard, &where, 1);
	cu.cuMemSetMemPool(&where, 1, standard);
	return result;
}
static int drop_location(struct object *o) {
	int result = cu.cuMemFreeAsync(o->a, NULL);
	if (result == 0) {
		calm();
		cu.cuCtxSynchronize_v2(context);
	}
	return result;
}

static int take_virtual(struct object *o) {
	allocation_prop prop = {.type = 1, .location = {1, 0}};
	return cu.cuMemCreate(&o->a, (size_t)o->bytes, &prop, 0ull);
}
static int drop_virtual(struct object *o) { return cu.cuMemRelease(o->a); }
/* Memory that only mappings hold: its handle is released first. In two mappings, which are unmapped together. */
static int take_mapped(struct object *o) {
	int result = take_virtual(o);
	if (result != 0)
		return result;
	result = cu.cuMemAddressReserve(&o->b, (size_t)(2 * o->bytes), (size_t)(2 * MIB), 0ull, 0ull);
	if (result == 0 && (result = cu.cuMemMap(o->b, (size_t)o->bytes, (size_t)0, o->a, 0ull)) == 0 &&
	    (result = cu.cuMemMap(o->b + o->bytes, (size_t)o->bytes, (size_t)0, o->a, 0ull)) != 0) {
		calm();
		cu.cuMemUnmap(o->b, (size_t)o->bytes);
	}
	calm();
	if (result != 0 && o->b != 0)
		cu.cuMemAddressFree(o->b, (size_t)(2 * o->bytes));
	cu.cuMemRelease(o->a);
	return result;
}
static int drop_mapped(struct object *o) {
	int result = cu.cuMemUnmap(o->b, (size_t)(2 * o->bytes));
	if (result == 0) {
		calm();
		cu.cuMemAddressFree(o->b, (size_t)(2 * o->bytes));
	}
	return result;
}
/* Memory that only a retained handle holds. */
static int take_retained(struct object *o) {
	int result = take_mapped(o);
	if (result != 0)
		return result;
	result = cu.cuMemRetainAllocationHandle(&o->a, (void *)(uintptr_t)(o->b + 4096));
	calm();
	drop_mapped(o);
	return result;
}
/* Memory that only an imported handle holds. */
static int take_imported(struct object *o) {
	allocation_prop prop = {.type = 1, .handle_types = 1, .location = {1, 0}};
	int shared = -1, result = cu.cuMemCreate(&o->a, (size_t)o->bytes, &prop, 0ull);
	uint64_t imported = 0;
	if (result != 0)
		return result;
	result = cu.cuMemExportToShareableHandle(&shared, o->a, 1, 0ull);
	if (result == 0)
		result = cu.cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)shared, 1);
	calm();
	if (shared >= 0)
		close(shared);
	cu.cuMemRelease(o->a);
	o->a = imported;
	return result;
}

/* A multicast object of one GPU, as large as the memory that is bound to it. */
static int new_multicast(struct object *o) {
	multicast_prop prop = {.devices = 1, .bytes = o->bytes};
	int result = cu.cuMulticastCreate(&o->multicast, &prop);
	if (result == 0 && (result = cu.cuMulticastAddDevice(o->multicast, 0)) != 0) {
		calm();
		cu.cuMemRelease(o->multicast);
	}
	return result;
}
static int end_multicast(struct object *o, int result) {
	calm();
	if (result != 0)
		cu.cuMemRelease(o->multicast);
	return result;
}
/* The binding is all that is left of the memory. */
static int take_bound(struct object *o) {
	int result = new_multicast(o);
	if (result != 0)
		return result;
	if ((result = take_virtual(o)) != 0)
		return end_multicast(o, result);
	result = cu.cuMulticastBindMem(o->multicast, (size_t)0, o->a, (size_t)0, (size_t)o->bytes, 0ull);
	calm();
	cu.cuMemRelease(o->a);
	return end_multicast(o, result);
}
/* In two parts, the second one first; 2 MiB in one. */
static size_t second_part(const struct object *o) { return o->bytes / 2 / (2 * MIB) * (2 * MIB); }
static int take_bound2(struct object *o) {
	size_t at = second_part(o), rest = o->bytes - at;
	int result = new_multicast(o);
	if (result != 0)
		return result;
	if ((result = take_virtual(o)) != 0)
		return end_multicast(o, result);
	result = cu.cuMulticastBindMem_v2(o->multicast, 0, at, o->a, (size_t)0, rest, 0ull);
	if (result == 0 && at > 0 &&
	    (result = cu.cuMulticastBindMem_v2(o->multicast, 0, (size_t)0, o->a, rest, at, 0ull)) != 0) {
		calm();
		cu.cuMulticastUnbind(o->multicast, 0, at, rest);
	}
	calm();
	cu.cuMemRelease(o->a);
	return end_multicast(o, result);
}
/* By the address where it is mapped. */
static int bound_address(struct object *o, int second) {
	int result = new_multicast(o);
	if (result != 0)
		return result;
	if ((result = take_mapped(o)) != 0)
		return end_multicast(o, result);
	if (second)
		result = cu.cuMulticastBindAddr_v2(o->multicast, 0, (size_t)0, o->b, (size_t)o->bytes, 0ull);
	else
		result = cu.cuMulticastBindAddr(o->multicast, (size_t)0, o->b, (size_t)o->bytes, 0ull);
	calm();
	drop_mapped(o);
	return end_multicast(o, result);
}
static int take_bound_address(struct object *o) { return bound_address(o, 0); }
static int take_bound_address2(struct object *o) { return bound_address(o, 1); }
static int drop_part(struct object *o, size_t at, size_t bytes) {
	int result = cu.cuMulticastUnbind(o->multicast, 0, at, bytes);
	if (result == 0 && at == 0) {
		calm();
		cu.cuMemRelease(o->multicast);
	}
	return result;
}
static int drop_bound(struct object *o) { return drop_part(o, 0, o->bytes); }
static int drop_bound2(struct object *o) {
	size_t at = second_part(o);
	int result = at == 0 || o->b == 1 ? 0 : drop_part(o, at, o->bytes - at);
	if (result != 0)
		return result;
	o->b = 1; /* it may be dropped again if the first part is not */
	return drop_part(o, 0, at == 0 ? o->bytes : at);
}

/* What refers to one chunk at a time in the fake driver: each allocation but the first is an ordinary one. */
static int referring;
static array_map tile(uint64_t handle, int operation) {
	return (array_map){.resource = &cu, .operation = operation, .handle = handle, .mask = 1};
}
static int take_tile(struct object *o) {
	int result = take_virtual(o);
	if (result != 0 || referring)
		return result;
	array_map map = tile(o->a, 1);
	result = cu.cuMemMapArrayAsync(&map, 1u, NULL);
	calm();
	cu.cuMemRelease(o->a);
	o->b = result == 0;
	referring = result == 0;
	return result;
}
static int drop_tile(struct object *o) {
	array_map map = tile(0, 2);
	if (!o->b)
		return cu.cuMemRelease(o->a);
	int result = cu.cuMemMapArrayAsync_ptsz(&map, 1u, NULL);
	referring = result != 0;
	return result;
}

/* Rows of 16 KiB, or of 256 KiB in planes. */
static int take_array(struct object *o) { return cu.cuArrayCreate_v2(&o->p, &(shape){4096, o->bytes >> 14, 0x20, 1}); }
static int take_array_v1(struct object *o) {
	return cu.cuArrayCreate(&o->p, &(shape_v1){4096, (unsigned)(o->bytes >> 14), 0x01, 4});
}
static int take_array3d(struct object *o) {
	return cu.cuArray3DCreate_v2(&o->p, &(shape3d){256, 256, o->bytes >> 18, 0x10, 2, 0});
}
static int take_array3d_v1(struct object *o) {
	return cu.cuArray3DCreate(&o->p, &(shape3d_v1){256, 256, (unsigned)(o->bytes >> 18), 0x20, 1, 0});
}
static int take_layers(struct object *o) {
	return cu.cuArray3DCreate_v2(&o->p, &(shape3d){1024, o->bytes >> 16, 16, 0x20, 1, 1});
}
static int drop_array(struct object *o) { return cu.cuArrayDestroy(o->p); }
static int take_mipmapped(struct object *o) {
	return cu.cuMipmappedArrayCreate(&o->p, &(shape3d){4096, o->bytes >> 14, 1, 0x20, 1, 1}, 1u);
}
static int drop_mipmapped(struct object *o) { return cu.cuMipmappedArrayDestroy(o->p); }

static int drop_graph(struct object *o) {
	int result = cu.cuMemFree_v2(o->a);
	if (result != 0)
		return result;
	calm();
	if (o->p != NULL)
		cu.cuGraphExecDestroy(o->p);
	cu.cuGraphDestroy(o->q);
	cu.cuDeviceGraphMemTrim(0);
	return 0;
}
static int new_graph(struct object *o) {
	node_params params = {.pool = {.type = 1, .location = {1, 0}}, .bytes = o->bytes};
	void *node;
	int result = cu.cuGraphCreate(&o->q, 0u);
	if (result == 0 && (result = cu.cuGraphAddMemAllocNode(&node, o->q, NULL, (size_t)0, &params)) != 0) {
		calm();
		cu.cuGraphDestroy(o->q);
	}
	o->a = params.address;
	return result;
}
/* A graph that was not launched holds nothing. */
static int launched(struct object *o, int result, int own_stream, int upload) {
	if (result == 0 && upload)
		result = own_stream ? cu.cuGraphUpload_ptsz(o->p, NULL) : cu.cuGraphUpload(o->p, NULL);
	if (result == 0)
		result = own_stream ? cu.cuGraphLaunch_ptsz(o->p, NULL) : cu.cuGraphLaunch(o->p, NULL);
	if (result == 0)
		return 0;
	calm();
	if (o->p != NULL)
		cu.cuGraphExecDestroy(o->p);
	cu.cuGraphDestroy(o->q);
	cu.cuDeviceGraphMemTrim(0);
	return result;
}
#define GRAPH(name, own_stream, upload, ...) \
	static int name(struct object *o) { \
		int result = new_graph(o); \
		return result != 0 ? result : launched(o, __VA_ARGS__, own_stream, upload); \
	}
GRAPH(take_graph_v1, 0, 0, cu.cuGraphInstantiate(&o->p, o->q, NULL, NULL, (size_t)0))
GRAPH(take_graph_v2, 0, 1, cu.cuGraphInstantiate_v2(&o->p, o->q, NULL, NULL, (size_t)0))
GRAPH(take_graph_flags, 1, 0, cu.cuGraphInstantiateWithFlags(&o->p, o->q, 0ull))
GRAPH(take_graph_params, 1, 1, cu.cuGraphInstantiateWithParams(&o->p, o->q, &(instantiation){0}))
GRAPH(take_graph_params_ptsz, 0, 0, cu.cuGraphInstantiateWithParams_ptsz(&o->p, o->q, &(instantiation){0}))

/* Its node is in a graph that is a node of the launched one. */
static int take_child(struct object *o) {
	void *node, *child, *outer = NULL;
	int result = new_graph(o);
	if (result != 0)
		return result;
	child = o->q;
	if ((result = cu.cuGraphCreate(&outer, 0u)) == 0)
		result = cu.cuGraphAddChildGraphNode(&node, outer, NULL, (size_t)0, child);
	if (result == 0)
		result = cu.cuGraphInstantiateWithFlags(&o->p, outer, 0ull);
	if (outer != NULL) {
		calm();
		cu.cuGraphDestroy(outer);
	}
	return launched(o, result, 0, 0);
}

static void *capture_stream;
static int take_captured(struct object *o) {
	int result = capture_stream != NULL ? 0 : cu.cuStreamCreateWithPriority(&capture_stream, 1u, 0);
	if (result == 0)
		result = cu.cuStreamBeginCapture_v2(capture_stream, 2);
	if (result != 0)
		return result;
	result = cu.cuMemAllocAsync(&o->a, (size_t)o->bytes, capture_stream);
	calm();
	cu.cuStreamEndCapture(capture_stream, &o->q);
	if (result == 0)
		result = cu.cuGraphInstantiateWithFlags(&o->p, o->q, 0ull);
	return launched(o, result, 0, 0);
}

/* An allocation that ends with its context. */
static int in_context(struct object *o, int result) {
	void *popped;
	if (result != 0)
		return result;
	result = cu.cuMemAlloc_v2(&o->a, (size_t)o->bytes);
	calm();
	cu.cuCtxPopCurrent_v2(&popped);
	if (result != 0)
		cu.cuCtxDestroy_v2(o->p);
	return result;
}
static int take_context(struct object *o) { return in_context(o, cu.cuCtxCreate(&o->p, 0u, 0)); }
static int take_context2(struct object *o) { return in_context(o, cu.cuCtxCreate_v2(&o->p, 0u, 0)); }
static int take_context3(struct object *o) { return in_context(o, cu.cuCtxCreate_v3(&o->p, NULL, 0, 0u, 0)); }
static int take_context4(struct object *o) { return in_context(o, cu.cuCtxCreate_v4(&o->p, NULL, 0u, 0)); }
static int drop_context(struct object *o) { return cu.cuCtxDestroy(o->p); }
static int drop_context2(struct object *o) { return cu.cuCtxDestroy_v2(o->p); }
static int drop_context_detached(struct object *o) { return cu.cuCtxDetach(o->p); }

static const struct row {
	const char *name;
	int (*take)(struct object *), (*drop)(struct object *);
} rows[] = {
    {"linear", take_linear, drop_linear},
    {"linear_v1", take_linear_v1, drop_linear_v1},
    {"ordered", take_linear, drop_ordered},
    {"pitch", take_pitch, drop_linear},
    {"pitch_v1", take_pitch_v1, drop_linear_v1},
    {"managed", take_managed, drop_linear},
    {"async", take_async, drop_async},
    {"async_ptsz", take_async_ptsz, drop_async_ptsz},
    {"pool", take_pool, drop_async},
    {"pool_ptsz", take_pool_ptsz, drop_async_ptsz},
    {"orphan", take_orphan, drop_async},
    {"set_pool", take_set_pool, drop_async},
    {"virtual", take_virtual, drop_virtual},
    {"mapped", take_mapped, drop_mapped},
    {"retained", take_retained, drop_virtual},
    {"imported", take_imported, drop_virtual},
    {"bound", take_bound, drop_bound},
    {"bound_address", take_bound_address, drop_bound},
    {"tile", take_tile, drop_tile},
    {"bound2", take_bound2, drop_bound2},
    {"bound_address2", take_bound_address2, drop_bound},
    {"location", take_location, drop_location},
    {"child", take_child, drop_graph},
    {"array", take_array, drop_array},
    {"array_v1", take_array_v1, drop_array},
    {"array3d", take_array3d, drop_array},
    {"array3d_v1", take_array3d_v1, drop_array},
    {"layers", take_layers, drop_array},
    {"mipmapped", take_mipmapped, drop_mipmapped},
    {"graph_v1", take_graph_v1, drop_graph},
    {"graph_v2", take_graph_v2, drop_graph},
    {"graph_flags", take_graph_flags, drop_graph},
    {"graph_params", take_graph_params, drop_graph},
    {"graph_params_ptsz", take_graph_params_ptsz, drop_graph},
    {"captured", take_captured, drop_graph},
    {"context", take_context, drop_context},
    {"context2", take_context2, drop_context2},
    {"context3", take_context3, drop_context_detached},
    {"context4", take_context4, drop_context2},
};

static const struct row *find_row(const char *name) {
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	fprintf(stderr, "no row %s\n", name);
	exit(2);
}
