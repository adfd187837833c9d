// TensorFlow's own BFCAllocator, from the headers and the library of its wheel. It has the equal interface itself: a
// mutex, frees by address, and statistics. Its pool is one region, as without memory growth.

#include <memory>

#include "replay.h"
#include "xla/tsl/framework/allocator.h"
#include "xla/tsl/framework/bfc_allocator.h"

namespace {

constexpr uint64_t kBase = 1ULL << 46;

// Addresses without memory: the allocator never accesses the memory that it returns.
class Device : public tsl::SubAllocator {
  public:
	Device() : SubAllocator({}, {}) {}

	void *Alloc(size_t, size_t bytes, size_t *received) override {
		*received = bytes;
		return reinterpret_cast<void *>(kBase);
	}
	void Free(void *, size_t) override {}
	bool SupportsCoalescing() const override { return false; }
};

class Bfc {
  public:
	using Slot = void *;

	explicit Bfc(uint64_t bytes)
	    : allocator_(std::make_unique<Device>(), bytes, "peer", Options()),
	      once_(/*retry_on_failure=*/false, false, nullptr) {}

	bool Allocate(uint64_t bytes, Slot *slot) {
		*slot = allocator_.AllocateRaw(256, bytes, once_);
		return *slot != nullptr;
	}

	void Free(Slot slot) { allocator_.DeallocateRaw(slot); }
	static uint64_t Address(Slot slot) { return reinterpret_cast<uint64_t>(slot) - kBase; }

	void Count(peer_counters *counters) {
		const tsl::AllocatorStats stats = *allocator_.GetStats();
		counters->current = stats.bytes_in_use;
		counters->peak = stats.peak_bytes_in_use;
	}

  private:
	static tsl::BFCAllocator::Options Options() {
		tsl::BFCAllocator::Options options;
		options.allow_growth = false;
		options.allow_retry_on_failure = false;
		return options;
	}

	tsl::BFCAllocator allocator_;
	const tsl::AllocationAttributes once_;
};

const peers::Entry kEntries[] = {{"TensorFlow's BFCAllocator", "equal", peers::Open<Bfc>}};

} // namespace

PEERS_EXPORT(kEntries)
