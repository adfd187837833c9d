// RMM's own list of free blocks, from the headers of the librmm wheel, used as RMM's pool uses it: the found block is
// removed, and its remainder is added again. RMM's pool around it, with streams and CUDA events, needs a GPU.

#include <rmm/mr/detail/coalescing_free_list.hpp>

#include "replay.h"

namespace {

class Rmm {
  public:
	using Handle = rmm::mr::detail::block;

	explicit Rmm(uint64_t bytes) { free_.insert(Handle(Base(), bytes, true)); }

	bool Allocate(uint64_t bytes, Handle *out) {
		const uint64_t size = peers::RoundUp(bytes, 256);
		const Handle found = free_.get_block(size);
		if (!found.is_valid())
			return false;
		*out = Handle(found.pointer(), size, found.is_head());
		if (found.size() > size)
			free_.insert(Handle(found.pointer() + size, found.size() - size, false));
		return true;
	}

	void Free(const Handle &block) { free_.insert(block); }
	static uint64_t Address(const Handle &block) { return static_cast<uint64_t>(block.pointer() - Base()); }
	uint64_t Reserved() const { return 0; }

  private:
	static char *Base() { return reinterpret_cast<char *>(1ULL << 46); }

	rmm::mr::detail::coalescing_free_list free_;
};

const peers::Entry kEntries[] = {
    {"RMM's free list", "bare", peers::Open<peers::Bare<Rmm>>},
    {"RMM's free list", "equal", peers::Open<peers::Equal<Rmm>>},
};

} // namespace

PEERS_EXPORT(kEntries)
