// The structure of PyTorch's caching allocator, written from its published design; not PyTorch's code. Sizes are
// multiples of 512. Blocks of at most 1 MiB are in one pool, larger ones in another. A pool's free blocks are a
// red-black tree by stream, size and address, and the smallest that fits is used. Statistics by pool, traces and
// contexts, which the real one also keeps, are left out.
//
// With "segments" a pool reserves stretches of 2 MiB, of 20 MiB, or of the request rounded up to 2 MiB, which are never
// joined; the remainder of a large block is split off only if it is larger than 1 MiB. With "expandable" a pool is one
// stretch that grows at its end.

#include <set>

#include "replay.h"

namespace {

constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kUnit = 512;
constexpr uint64_t kSmall = kMib;

struct Block {
	uint64_t address, size;
	void *stream;
	Block *previous, *next; // adjacent in its stretch
	bool live, small;
};

struct BySize {
	bool operator()(const Block *a, const Block *b) const {
		if (a->stream != b->stream)
			return a->stream < b->stream;
		if (a->size != b->size)
			return a->size < b->size;
		return a->address < b->address;
	}
};

template <bool kExpandable> class Torch {
  public:
	using Handle = Block *;

	explicit Torch(uint64_t) {}

	~Torch() {
		for (Block *first : firsts_)
			for (Block *next; first != nullptr; first = next) {
				next = first->next;
				delete first;
			}
	}

	bool Allocate(uint64_t bytes, Handle *out) {
		const uint64_t size = peers::RoundUp(bytes, kUnit);
		const bool small = size <= kSmall;
		Tree &tree = free_[small];
		Block key{0, size, nullptr, nullptr, nullptr, false, small};
		auto at = tree.lower_bound(&key);
		Block *block = at != tree.end() ? *at : Grow(size, small);
		if (at != tree.end())
			tree.erase(at);
		if (const uint64_t rest = block->size - size; kExpandable || small ? rest >= kUnit : rest > kSmall) {
			auto *tail = new Block{block->address + size, rest, nullptr, block, block->next, false, small};
			if (block->next != nullptr)
				block->next->previous = tail;
			if (last_[small] == block)
				last_[small] = tail;
			block->next = tail;
			block->size = size;
			tree.insert(tail);
		}
		block->live = true;
		*out = block;
		return true;
	}

	void Free(Handle block) {
		block->live = false;
		Tree &tree = free_[block->small];
		if (Block *above = block->next; above != nullptr && !above->live) {
			tree.erase(above);
			Absorb(block, above);
		}
		if (Block *below = block->previous; below != nullptr && !below->live) {
			tree.erase(below);
			Absorb(below, block);
			block = below;
		}
		tree.insert(block);
	}

	static uint64_t Address(Handle block) { return block->address; }
	uint64_t Reserved() const { return reserved_; }

  private:
	using Tree = std::set<Block *, BySize>;

	// Returns a block that is large enough and in no tree.
	Block *Grow(uint64_t size, bool small) {
		const uint64_t unit = small ? 2 * kMib : kExpandable || size < 10 * kMib ? 20 * kMib : 2 * kMib;
		Block *last = last_[small];
		if (!kExpandable || last == nullptr || last->live)
			return Stretch(peers::RoundUp(size, unit), small);
		const uint64_t more = peers::RoundUp(size - last->size, unit);
		free_[small].erase(last);
		last->size += more;
		Take(more, small);
		return last;
	}

	// A new stretch or, with expandable, a new block at the end of the existing one.
	Block *Stretch(uint64_t bytes, bool small) {
		auto *block = new Block{end_[small], bytes, nullptr, nullptr, nullptr, false, small};
		if (kExpandable && last_[small] != nullptr) {
			block->previous = last_[small];
			last_[small]->next = block;
		} else {
			firsts_.push_back(block);
		}
		last_[small] = block;
		Take(bytes, small);
		return block;
	}

	void Take(uint64_t bytes, bool small) {
		end_[small] += bytes;
		reserved_ += bytes;
	}

	void Absorb(Block *below, Block *above) {
		below->size += above->size;
		below->next = above->next;
		if (below->next != nullptr)
			below->next->previous = below;
		if (last_[below->small] == above)
			last_[below->small] = below;
		delete above;
	}

	// By pool: large, small.
	Tree free_[2];
	Block *last_[2] = {};
	uint64_t end_[2] = {1ULL << 45, 0};

	std::vector<Block *> firsts_; // of each stretch; they stay
	uint64_t reserved_ = 0;
};

using Segments = Torch<false>;
using Expandable = Torch<true>;

const peers::Entry kEntries[] = {
    {"torch's shape", "bare", peers::Open<peers::Bare<Segments>>},
    {"torch's shape", "equal", peers::Open<peers::Equal<Segments>>},
    {"torch's shape, expandable", "bare", peers::Open<peers::Bare<Expandable>>},
    {"torch's shape, expandable", "equal", peers::Open<peers::Equal<Expandable>>},
};

} // namespace

PEERS_EXPORT(kEntries)
