// The loops over a trace, and the wrapper that gives a bare allocator the equal interface. Each contender in C++ is a
// Core here:
//
//   using Handle = ...;                          a block's handle, kept by the bare allocator's caller
//   explicit Core(uint64_t bytes);
//   bool Allocate(uint64_t bytes, Handle *out);
//   void Free(const Handle &handle);
//   static uint64_t Address(const Handle &handle);
//   uint64_t Reserved() const;                   0 if the pool is one stretch

#ifndef GPUCONF_BENCHMARKS_REPLAY_H
#define GPUCONF_BENCHMARKS_REPLAY_H

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "peer.h"

namespace peers {

inline int64_t Now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

inline uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Blocks by address: open addressing, linear probing, at most half full. An address is never 0.
template <class Handle> class Table {
  public:
	Table() : slots_(64) {}

	void Insert(uint64_t key, const Handle &handle) {
		if (2 * ++used_ > slots_.size())
			Grow();
		Place(key, handle);
	}

	Handle Take(uint64_t key) {
		size_t at = Home(key);
		while (slots_[at].first != key)
			at = (at + 1) & (slots_.size() - 1);
		const Handle found = slots_[at].second;
		--used_;
		for (size_t next = at;;) { // entries pushed behind it move up
			next = (next + 1) & (slots_.size() - 1);
			if (slots_[next].first == 0)
				break;
			const size_t home = Home(slots_[next].first);
			if (((next - home) & (slots_.size() - 1)) < ((next - at) & (slots_.size() - 1)))
				continue;
			slots_[at] = slots_[next];
			at = next;
		}
		slots_[at].first = 0;
		return found;
	}

  private:
	size_t Home(uint64_t key) const { return (key * 0x9e3779b97f4a7c15) >> shift_; }

	void Place(uint64_t key, const Handle &handle) {
		size_t at = Home(key);
		while (slots_[at].first != 0)
			at = (at + 1) & (slots_.size() - 1);
		slots_[at] = {key, handle};
	}

	void Grow() {
		std::vector<std::pair<uint64_t, Handle>> old(2 * slots_.size());
		old.swap(slots_);
		--shift_;
		for (const auto &slot : old)
			if (slot.first != 0)
				Place(slot.first, slot.second);
	}

	std::vector<std::pair<uint64_t, Handle>> slots_;
	size_t used_ = 0;
	int shift_ = 64 - 6;
};

// The bare league: the caller keeps the handle, and nothing is counted.
template <class Core> class Bare {
  public:
	using Slot = typename Core::Handle;

	explicit Bare(uint64_t bytes) : core_(bytes) {}
	bool Allocate(uint64_t bytes, Slot *slot) { return core_.Allocate(bytes, slot); }
	void Free(const Slot &slot) { core_.Free(slot); }
	static uint64_t Address(const Slot &slot) { return Core::Address(slot); }
	void Count(peer_counters *counters) const { counters->reserved = core_.Reserved(); }

  private:
	Core core_;
};

// The league of equal interface: a mutex, blocks freed by address, and the live bytes and their peak. A core's address
// may be 0, so the returned addresses are one base higher.
template <class Core> class Equal {
  public:
	using Slot = uint64_t;

	explicit Equal(uint64_t bytes) : core_(bytes) {}

	bool Allocate(uint64_t bytes, Slot *slot) {
		std::lock_guard<std::mutex> lock(mutex_);
		typename Core::Handle handle;
		if (!core_.Allocate(bytes, &handle))
			return false;
		*slot = Core::Address(handle) + kBase;
		blocks_.Insert(*slot, {handle, bytes});
		current_ += bytes;
		if (current_ > peak_)
			peak_ = current_;
		return true;
	}

	void Free(Slot slot) {
		std::lock_guard<std::mutex> lock(mutex_);
		const Entry entry = blocks_.Take(slot);
		current_ -= entry.bytes;
		core_.Free(entry.handle);
	}

	static uint64_t Address(Slot slot) { return slot - kBase; }

	void Count(peer_counters *counters) {
		std::lock_guard<std::mutex> lock(mutex_);
		counters->current = current_;
		counters->peak = peak_;
		counters->reserved = core_.Reserved();
	}

  private:
	static constexpr uint64_t kBase = 1ULL << 47;
	struct Entry {
		typename Core::Handle handle;
		uint64_t bytes;
	};

	std::mutex mutex_;
	Core core_;
	Table<Entry> blocks_;
	uint64_t current_ = 0, peak_ = 0;
};

// A pool with the functions of peer.h.
class Pool {
  public:
	virtual ~Pool() = default;
	virtual int64_t Run(const peer_op *ops, uint64_t count, uint64_t *addrs, uint32_t *nanos) = 0;
	virtual std::unique_ptr<Pool> Beside(uint64_t blocks) const = 0;
	virtual void Count(peer_counters *counters) = 0;
};

template <class Allocator> class PoolOf : public Pool {
  public:
	PoolOf(uint64_t bytes, uint64_t blocks) : PoolOf(std::make_shared<Allocator>(bytes), blocks) {}
	PoolOf(std::shared_ptr<Allocator> allocator, uint64_t blocks)
	    : owner_(std::move(allocator)), allocator_(*owner_), slots_(blocks) {}

	int64_t Run(const peer_op *ops, uint64_t count, uint64_t *addrs, uint32_t *nanos) override {
		if (nanos != nullptr)
			return Timed(ops, count, nanos);
		return addrs != nullptr ? Loop<true>(ops, count, addrs) : Loop<false>(ops, count, nullptr);
	}

	std::unique_ptr<Pool> Beside(uint64_t blocks) const override { return std::make_unique<PoolOf>(owner_, blocks); }

	void Count(peer_counters *counters) override {
		allocator_.Count(counters);
		counters->ours = slots_.size() * sizeof slots_[0];
	}

  private:
	bool Step(const peer_op &op) {
		if (op.bytes != 0)
			return allocator_.Allocate(op.bytes, &slots_[op.block]);
		allocator_.Free(slots_[op.block]);
		return true;
	}

	template <bool kAddresses> int64_t Loop(const peer_op *ops, uint64_t count, uint64_t *addrs) {
		const int64_t start = Now();
		for (uint64_t i = 0; i < count; ++i) {
			if (kAddresses && ops[i].bytes == 0)
				addrs[i] = Allocator::Address(slots_[ops[i].block]); // its handle ends with it
			if (!Step(ops[i]))
				return -1 - static_cast<int64_t>(i);
			if (kAddresses && ops[i].bytes != 0)
				addrs[i] = Allocator::Address(slots_[ops[i].block]);
		}
		return Now() - start;
	}

	int64_t Timed(const peer_op *ops, uint64_t count, uint32_t *nanos) {
		const int64_t start = Now();
		int64_t before = start;
		for (uint64_t i = 0; i < count; ++i) {
			if (!Step(ops[i]))
				return -1 - static_cast<int64_t>(i);
			const int64_t now = Now();
			nanos[i] = static_cast<uint32_t>(now - before);
			before = now;
		}
		return before - start;
	}

	const std::shared_ptr<Allocator> owner_;
	Allocator &allocator_;
	std::vector<typename Allocator::Slot> slots_;
};

struct Entry {
	const char *name, *league;
	std::unique_ptr<Pool> (*open)(uint64_t bytes, uint64_t blocks);
};

template <class Allocator> std::unique_ptr<Pool> Open(uint64_t bytes, uint64_t blocks) {
	return std::make_unique<PoolOf<Allocator>>(bytes, blocks);
}

} // namespace peers

// Defines the functions of peer.h over an array of peers::Entry.
#define PEERS_EXPORT(entries) \
	extern "C" { \
	const char *peer_name(int which) { \
		return which < static_cast<int>(std::size(entries)) ? entries[which].name : nullptr; \
	} \
	const char *peer_league(int which) { return entries[which].league; } \
	void *peer_open(int which, uint64_t bytes, uint64_t blocks) { \
		return entries[which].open(bytes, blocks).release(); \
	} \
	int64_t peer_run(void *pool, const peer_op *ops, uint64_t count, uint64_t *addrs, uint32_t *nanos) { \
		return static_cast<peers::Pool *>(pool)->Run(ops, count, addrs, nanos); \
	} \
	void *peer_beside(void *pool, uint64_t blocks) { \
		return static_cast<peers::Pool *>(pool)->Beside(blocks).release(); \
	} \
	void peer_count(void *pool, peer_counters *counters) { \
		*counters = {}; \
		static_cast<peers::Pool *>(pool)->Count(counters); \
	} \
	void peer_close(void *pool) { delete static_cast<peers::Pool *>(pool); } \
	}

#endif
