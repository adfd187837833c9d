// mimalloc, an allocator of host memory, as a shared library from Debian. It is thread-safe and frees by address
// itself; the live bytes and their peak are counted here, without a lock.

#include <atomic>

#include "replay.h"

extern "C" {
void *mi_malloc(size_t bytes);
void mi_free(void *block);
size_t mi_usable_size(const void *block);
}

namespace {

class Mimalloc {
  public:
	using Slot = void *;

	explicit Mimalloc(uint64_t) {}

	bool Allocate(uint64_t bytes, Slot *slot) {
		*slot = mi_malloc(bytes);
		if (*slot == nullptr)
			return false;
		const uint64_t now =
		    current_.fetch_add(mi_usable_size(*slot), std::memory_order_relaxed) + mi_usable_size(*slot);
		if (now > peak_.load(std::memory_order_relaxed))
			peak_.store(now, std::memory_order_relaxed);
		return true;
	}

	void Free(Slot slot) {
		current_.fetch_sub(mi_usable_size(slot), std::memory_order_relaxed);
		mi_free(slot);
	}

	static uint64_t Address(Slot slot) { return reinterpret_cast<uint64_t>(slot); }

	void Count(peer_counters *counters) const {
		counters->current = current_;
		counters->peak = peak_;
	}

  private:
	std::atomic<uint64_t> current_{0}, peak_{0};
};

const peers::Entry kEntries[] = {{"mimalloc", "equal", peers::Open<Mimalloc>}};

} // namespace

PEERS_EXPORT(kEntries)
