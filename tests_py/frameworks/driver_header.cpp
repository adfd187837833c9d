/*
 * What gpuconf declares of the CUDA driver, held against NVIDIA's own cuda.h, when this is compiled.
 * test_driver_header.py writes rows.inc, a line for each function that gpuconf calls or stands before. Enumerations are
 * plain integers in gpuconf, and pointers to what it does not look into are void *.
 */
#include <cstddef>
#include <cstdint>
#include <type_traits>

#define __CUDA_API_VERSION_INTERNAL /* old forms of functions, too, and names as they are exported */
#include <cuda.h>
#include <cudaTypedefs.h>

#define _Static_assert static_assert
namespace core {
#include "gocore/machine/cuda/cuda_abi.h"
}
namespace guard {
#include "gocore/lease/guard/cuda_types.h"
}

template <class A, class B> constexpr bool same();

template <class A, class B> constexpr bool same_function = false;
template <class R, class... P, class S, class... Q>
constexpr bool same_function<R(P...), S(Q...)> = [] {
	if constexpr (sizeof...(P) == sizeof...(Q))
		return same<R, S>() && (same<P, Q>() && ...);
	return false;
}();

/* Whether a caller with declaration A can call, or be, what has declaration B. Structures are compared below, field by
 * field. */
template <class A, class B> constexpr bool same() {
	using X = std::remove_cv_t<std::remove_pointer_t<A>>;
	using Y = std::remove_cv_t<std::remove_pointer_t<B>>;
	constexpr bool numbers =
	    (std::is_integral_v<A> || std::is_enum_v<A>) && (std::is_integral_v<B> || std::is_enum_v<B>);

	if constexpr (std::is_function_v<A> && std::is_function_v<B>)
		return same_function<A, B>;
	else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
		if constexpr (std::is_void_v<X> || std::is_void_v<Y> || std::is_class_v<Y>)
			return std::is_void_v<X> || std::is_void_v<Y> || std::is_class_v<X> || std::is_same_v<X, uint8_t>;
		else
			return same<X, Y>();
	} else if constexpr (numbers)
		return sizeof(A) == sizeof(B) && (std::is_enum_v<B> || std::is_signed_v<A> == std::is_signed_v<B>);
	else
		return std::is_same_v<A, B>;
}

#define FUNCTION(space, parameters, header) \
	namespace space { \
	static_assert(same<CUresult parameters, std::remove_pointer_t<header>>(), #header " " #parameters); \
	}
#include "rows.inc"

#define VALUE(ours, theirs) static_assert((long long)(ours) == (long long)(theirs), #ours)
#define STRUCTURE(space, name) VALUE(sizeof(space::name), sizeof(::name))
#define FIELD(space, name, ours, theirs) \
	VALUE(offsetof(space::name, ours), offsetof(::name, theirs)); \
	VALUE(sizeof(space::name::ours), sizeof(::name::theirs))

VALUE(core::LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
VALUE(core::ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
VALUE(core::ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
VALUE(core::GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
VALUE(core::GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
VALUE(core::PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
VALUE(core::MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL);
VALUE(core::MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
VALUE(core::MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
VALUE(core::EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
VALUE(core::STREAM_WAIT_VALUE_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
VALUE(core::STREAM_WRITE_VALUE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
VALUE(core::OUT_OF_HOST_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
VALUE(core::STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
VALUE(core::CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
VALUE(core::CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
VALUE(core::CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
VALUE(core::USER_OBJECT_NO_DESTRUCTOR_SYNC, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
VALUE(core::GRAPH_USER_OBJECT_MOVE, CU_GRAPH_USER_OBJECT_MOVE);
#define ATTRIBUTE(name) VALUE(core::ATTRIBUTE_##name, CU_DEVICE_ATTRIBUTE_##name)
ATTRIBUTE(MULTIPROCESSOR_COUNT);
ATTRIBUTE(INTEGRATED);
ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR);
ATTRIBUTE(COMPUTE_CAPABILITY_MINOR);
ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED);
ATTRIBUTE(MANAGED_MEMORY);
ATTRIBUTE(CONCURRENT_MANAGED_ACCESS);
ATTRIBUTE(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
#if CUDA_VERSION >= 11070
ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS);
#endif

STRUCTURE(core, CUuuid);
STRUCTURE(core, CUmemLocation);
FIELD(core, CUmemLocation, type, type);
FIELD(core, CUmemLocation, id, id);
STRUCTURE(core, CUmemAllocationProp);
FIELD(core, CUmemAllocationProp, type, type);
FIELD(core, CUmemAllocationProp, requestedHandleTypes, requestedHandleTypes);
FIELD(core, CUmemAllocationProp, location, location);
FIELD(core, CUmemAllocationProp, win32HandleMetaData, win32HandleMetaData);
FIELD(core, CUmemAllocationProp, allocFlags, allocFlags);
STRUCTURE(core, CUmemAccessDesc);
FIELD(core, CUmemAccessDesc, location, location);
FIELD(core, CUmemAccessDesc, flags, flags);

VALUE(guard::CUDA_SUCCESS, CUDA_SUCCESS);
VALUE(guard::CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
VALUE(guard::CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
VALUE(guard::CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
VALUE(guard::CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
VALUE(guard::CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
VALUE(guard::LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
VALUE(guard::ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
#if CUDA_VERSION >= 13000
VALUE(guard::ALLOCATION_MANAGED, CU_MEM_ALLOCATION_TYPE_MANAGED);
#endif
VALUE(guard::POOL_RESERVED, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
VALUE(guard::POOL_USED, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
VALUE(guard::GRAPH_USED, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
VALUE(guard::GRAPH_RESERVED, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
VALUE(guard::NODE_GRAPH, CU_GRAPH_NODE_TYPE_GRAPH);
VALUE(guard::NODE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
VALUE(guard::NODE_MEM_FREE, CU_GRAPH_NODE_TYPE_MEM_FREE);
VALUE(guard::ARRAY_LAYERED, CUDA_ARRAY3D_LAYERED);
VALUE(guard::ARRAY_CUBEMAP, CUDA_ARRAY3D_CUBEMAP);
VALUE(guard::ARRAY_SPARSE, CUDA_ARRAY3D_SPARSE);
VALUE(guard::ARRAY_DEFERRED, CUDA_ARRAY3D_DEFERRED_MAPPING);
VALUE(guard::SUBRESOURCE_MIPTAIL, CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL);
VALUE(guard::OPERATION_MAP, CU_MEM_OPERATION_TYPE_MAP);
VALUE(guard::OPERATION_UNMAP, CU_MEM_OPERATION_TYPE_UNMAP);

STRUCTURE(guard, CUmemLocation);
FIELD(guard, CUmemLocation, type, type);
FIELD(guard, CUmemLocation, id, id);
STRUCTURE(guard, CUmemAllocationProp);
FIELD(guard, CUmemAllocationProp, type, type);
FIELD(guard, CUmemAllocationProp, location, location);
STRUCTURE(guard, CUmemPoolProps);
FIELD(guard, CUmemPoolProps, type, allocType);
FIELD(guard, CUmemPoolProps, location, location);
STRUCTURE(guard, CUDA_MEM_ALLOC_NODE_PARAMS);
FIELD(guard, CUDA_MEM_ALLOC_NODE_PARAMS, pool, poolProps);
FIELD(guard, CUDA_MEM_ALLOC_NODE_PARAMS, bytes, bytesize);
FIELD(guard, CUDA_MEM_ALLOC_NODE_PARAMS, address, dptr);
STRUCTURE(guard, CUDA_ARRAY_DESCRIPTOR_v1);
STRUCTURE(guard, CUDA_ARRAY_DESCRIPTOR);
FIELD(guard, CUDA_ARRAY_DESCRIPTOR, width, Width);
FIELD(guard, CUDA_ARRAY_DESCRIPTOR, height, Height);
FIELD(guard, CUDA_ARRAY_DESCRIPTOR, format, Format);
FIELD(guard, CUDA_ARRAY_DESCRIPTOR, channels, NumChannels);
STRUCTURE(guard, CUDA_ARRAY3D_DESCRIPTOR_v1);
STRUCTURE(guard, CUDA_ARRAY3D_DESCRIPTOR);
FIELD(guard, CUDA_ARRAY3D_DESCRIPTOR, depth, Depth);
FIELD(guard, CUDA_ARRAY3D_DESCRIPTOR, format, Format);
FIELD(guard, CUDA_ARRAY3D_DESCRIPTOR, channels, NumChannels);
FIELD(guard, CUDA_ARRAY3D_DESCRIPTOR, flags, Flags);
STRUCTURE(guard, CUarrayMapInfo);
FIELD(guard, CUarrayMapInfo, resource, resource);
FIELD(guard, CUarrayMapInfo, subresource_type, subresourceType);
FIELD(guard, CUarrayMapInfo, subresource, subresource);
FIELD(guard, CUarrayMapInfo, operation, memOperationType);
FIELD(guard, CUarrayMapInfo, handle, memHandle);
FIELD(guard, CUarrayMapInfo, offset, offset);
VALUE(
    offsetof(guard::CUarrayMapInfo, subresource.miptail.layer), offsetof(::CUarrayMapInfo, subresource.miptail.layer));
VALUE(offsetof(guard::CUarrayMapInfo, subresource.miptail.offset),
    offsetof(::CUarrayMapInfo, subresource.miptail.offset));
