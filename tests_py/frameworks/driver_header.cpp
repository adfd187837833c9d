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

VALUE(core::STREAM_WRITE_VALUE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
VALUE(core::OUT_OF_HOST_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
VALUE(core::STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

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
