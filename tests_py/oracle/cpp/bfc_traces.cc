// Runs allocation traces on TensorFlow's own BFCAllocator. The counterpart of tests_go/pool/oracle, which documents the
// format.

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "xla/tsl/framework/allocator.h"
#include "xla/tsl/framework/bfc_allocator.h"

namespace {

constexpr uint64_t kBase = 0x700000000000;
constexpr uint64_t kMib2 = 2 << 20;
constexpr uint32_t kClearStats = 0xffffffff;

struct Header {
	uint64_t steps, limit, capacity, layout;
	double fraction;
	uint8_t growth, collect, exact, unused[5];
};

struct Record {
	uint64_t addr, current, peak, pool, allocs, largest, calls;
};

uint64_t Mix(uint64_t a, uint64_t b) {
	uint64_t z = (a ^ b * 0xff51afd7ed558ccd) + 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

// A device that returns address ranges until its capacity is reached, at the same places as
// tests_go/pool/oracle/device.go.
class Device {
  public:
	Device(uint64_t capacity, uint64_t layout) : capacity_(capacity), layout_(layout) {}

	void *Alloc(uint64_t bytes) {
		if (bytes > capacity_ - taken_) {
			Note(bytes, 1);
			return nullptr;
		}
		const uint64_t addr = Place(bytes);
		++count_;
		taken_ += bytes;
		regions_[addr] = bytes;
		Note(bytes, addr);
		return reinterpret_cast<void *>(addr);
	}

	void Free(void *ptr) {
		const uint64_t addr = reinterpret_cast<uint64_t>(ptr);
		taken_ -= regions_[addr];
		regions_.erase(addr);
		Note(0, addr);
	}

	uint64_t calls() const { return calls_; }
	uint64_t count() const { return count_; }

  private:
	uint64_t Place(uint64_t bytes) {
		const uint64_t addr = next_;
		if (layout_ == 0) {
			next_ = (addr + bytes + 2 * kMib2 - 1) / kMib2 * kMib2;
			return addr;
		}
		if (layout_ == 1) {
			next_ = addr + bytes;
			return addr;
		}
		for (uint64_t slot = Mix(layout_, count_);; ++slot) {
			const uint64_t there = (slot % (1 << 20) + 1) << 36;
			if (regions_.count(there) == 0)
				return there;
		}
	}

	void Note(uint64_t a, uint64_t b) { calls_ = Mix(Mix(calls_, a), b); }

	const uint64_t capacity_, layout_;
	uint64_t taken_ = 0, next_ = kBase, count_ = 0, calls_ = 0;
	std::unordered_map<uint64_t, uint64_t> regions_;
};

class Upstream : public tsl::SubAllocator {
  public:
	explicit Upstream(Device *device) : SubAllocator({}, {}), device_(device) {}

	void *Alloc(size_t, size_t bytes, size_t *received) override {
		*received = bytes;
		return device_->Alloc(bytes);
	}
	void Free(void *ptr, size_t) override { device_->Free(ptr); }
	bool SupportsCoalescing() const override { return false; }

  private:
	Device *const device_;
};

// How many regions an allocator may get before the size of the next one, which doubles with each, can exceed 2^64: it
// then becomes 0, which the allocator doubles forever. Regions that were released still count.
uint64_t EndlessAfter(uint64_t limit) {
	uint64_t regions = 61;
	for (uint64_t size = limit; size > 1; size /= 2)
		--regions;
	return regions;
}

// Returns a record for each step up to the first that might never end.
std::vector<Record> Trace(const Header &h, const std::vector<uint32_t> &slots, const std::vector<uint64_t> &sizes) {
	Device device(h.capacity, h.layout);
	tsl::BFCAllocator::Options options;
	options.allow_growth = h.growth;
	options.allow_retry_on_failure = false;
	options.garbage_collection = h.collect;
	options.fragmentation_fraction = h.fraction;
	tsl::BFCAllocator allocator(std::make_unique<Upstream>(&device), h.limit, "oracle", options);
	const tsl::AllocationAttributes once(
	    /*retry_on_failure=*/false, /*allocation_will_be_logged=*/false, /*freed_by_func=*/nullptr);
	std::unordered_map<uint32_t, void *> blocks;
	const uint64_t endless = EndlessAfter(h.limit);
	std::vector<Record> records(slots.size());
	for (size_t i = 0; i < slots.size(); ++i) {
		if (device.count() >= endless) {
			records.resize(i);
			break;
		}
		void *block = nullptr;
		if (slots[i] == kClearStats) {
			allocator.ClearStats();
		} else if (sizes[i] > 0) {
			block = allocator.AllocateRaw(256, sizes[i], once);
			if (block != nullptr)
				blocks[slots[i]] = block;
		} else if (auto held = blocks.find(slots[i]); held != blocks.end()) {
			allocator.DeallocateRaw(held->second);
			blocks.erase(held);
		}
		const tsl::AllocatorStats s = *allocator.GetStats();
		records[i] = {reinterpret_cast<uint64_t>(block), static_cast<uint64_t>(s.bytes_in_use),
		    static_cast<uint64_t>(s.peak_bytes_in_use), static_cast<uint64_t>(s.pool_bytes.value_or(0)),
		    static_cast<uint64_t>(s.num_allocs), static_cast<uint64_t>(s.largest_alloc_size), device.calls()};
	}
	return records;
}

template <typename T> bool Read(std::vector<T> *values) {
	return std::fread(values->data(), sizeof(T), values->size(), stdin) == values->size();
}

} // namespace

int main() {
	Header h;
	while (std::fread(&h, sizeof h, 1, stdin) == 1) {
		std::vector<uint32_t> slots(h.steps);
		std::vector<uint64_t> sizes(h.steps);
		if (!Read(&slots) || !Read(&sizes))
			return 1;
		const std::vector<Record> records = Trace(h, slots, sizes);
		const uint64_t steps = records.size();
		if (std::fwrite(&steps, sizeof steps, 1, stdout) != 1)
			return 1;
		if (std::fwrite(records.data(), sizeof(Record), records.size(), stdout) != records.size())
			return 1;
		std::fflush(stdout);
	}
	return 0;
}
