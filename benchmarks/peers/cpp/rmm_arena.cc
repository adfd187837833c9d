// RMM's arena: its class arena_memory_resource, from the library of the librmm wheel, with an arena for each thread. It
// has locks of its own; the caller names the size at a free, and nothing is counted. Blocks of at most 1 MiB are served
// without CUDA.

#include <cuda_runtime_api.h>

#include <rmm/cuda_device.hpp>
#include <rmm/mr/arena_memory_resource.hpp>

#include "replay.h"

// In place of the library's: its constructor queries the device's memory even if it gets the size of the arena.
RMM_NAMESPACE_BEGIN
std::pair<std::size_t, std::size_t> available_device_memory() { return {0, 0}; }
RMM_NAMESPACE_END

namespace {

// Addresses without memory: the arena never accesses the memory that it returns.
struct Device {
	static constexpr uint64_t kBase = 1ULL << 46;

	void *allocate_sync(std::size_t, std::size_t = 256) { return reinterpret_cast<void *>(kBase); }
	void deallocate_sync(void *, std::size_t, std::size_t = 256) noexcept {}
	void *allocate(cuda::stream_ref, std::size_t bytes, std::size_t = 256) { return allocate_sync(bytes); }
	void deallocate(cuda::stream_ref, void *, std::size_t, std::size_t = 256) noexcept {}
	bool operator==(const Device &) const { return true; }
	bool operator!=(const Device &) const { return false; }
	friend void get_property(const Device &, cuda::mr::device_accessible) noexcept {}
};

class Arena {
  public:
	struct Slot {
		void *address;
		uint64_t bytes;
	};

	explicit Arena(uint64_t bytes) : arena_(cuda::mr::any_resource<cuda::mr::device_accessible>(Device{}), bytes) {}

	bool Allocate(uint64_t bytes, Slot *slot) {
		*slot = {arena_.allocate(Stream(), bytes, 256), bytes};
		return slot->address != nullptr;
	}

	void Free(const Slot &slot) { arena_.deallocate(Stream(), slot.address, slot.bytes, 256); }
	static uint64_t Address(const Slot &slot) { return reinterpret_cast<uint64_t>(slot.address) - Device::kBase; }
	void Count(peer_counters *) const {}

  private:
	static cuda::stream_ref Stream() {
		return cuda::stream_ref{cudaStreamPerThread};
	} // the stream with an arena for each thread

	rmm::mr::arena_memory_resource arena_;
};

const peers::Entry kEntries[] = {{"RMM's arena", "threads", peers::Open<Arena>}};

} // namespace

PEERS_EXPORT(kEntries)
