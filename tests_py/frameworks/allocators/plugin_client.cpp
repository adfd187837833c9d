/*
 * A C++ library that calls gpuconf as PyTorch and CuPy call an allocator's functions. PyTorch keeps, for each pointer,
 * its size, device and stream under its own lock, frees with these, and checks no result; it catches exceptions.
 */
#include <dlfcn.h>
#include <sys/types.h>

#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

using Stream = void *;
std::function<void *(ssize_t, int, Stream)> alloc_fn;
std::function<void(void *, ssize_t, int, Stream)> free_fn;
std::function<void(void *, Stream)> record_stream_fn;
std::function<void(double, int)> memory_fraction_fn;
std::function<void *(void *, size_t *)> base_alloc_fn;

struct Metadata {
	ssize_t size;
	int device;
	Stream stream;
};
std::mutex lock;
std::unordered_map<void *, Metadata> metadata;

void *take(ssize_t size, int device, Stream stream) {
	void *ptr = alloc_fn(size, device, stream);
	const std::lock_guard<std::mutex> guard(lock);
	if (!metadata.emplace(ptr, Metadata{size, device, stream}).second && ptr != nullptr)
		throw std::logic_error("an address was handed out twice");
	return ptr;
}

void give(void *ptr) {
	Metadata kept;
	{
		const std::lock_guard<std::mutex> guard(lock);
		kept = metadata.at(ptr);
		metadata.erase(ptr);
	}
	free_fn(ptr, kept.size, kept.device, kept.stream);
}

/* Counts its destructions: an exception must unwind frames that need cleanup. */
struct Guard {
	int &count;
	~Guard() { count++; }
};

} // namespace

extern "C" {

int client_open(const char *path) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == nullptr)
		return 0;
	alloc_fn = reinterpret_cast<void *(*)(ssize_t, int, Stream)>(dlsym(library, "gpuconf_torch_malloc"));
	free_fn = reinterpret_cast<void (*)(void *, ssize_t, int, Stream)>(dlsym(library, "gpuconf_torch_free"));
	record_stream_fn = reinterpret_cast<void (*)(void *, Stream)>(dlsym(library, "gpuconf_torch_record_stream"));
	memory_fraction_fn = reinterpret_cast<void (*)(double, int)>(dlsym(library, "gpuconf_torch_memory_fraction"));
	base_alloc_fn = reinterpret_cast<void *(*)(void *, size_t *)>(dlsym(library, "gpuconf_torch_base_alloc"));
	return alloc_fn && free_fn && record_stream_fn && memory_fraction_fn && base_alloc_fn;
}

void *client_take(ssize_t size, int device, Stream stream) { return take(size, device, stream); }
void client_give(void *ptr) { give(ptr); }

/* The exception of an allocation: its what(), and the number of guards cleaned up. -1 if nothing was thrown. */
int client_catch(ssize_t size, int device, char *text, size_t room) {
	int cleaned = 0;
	try {
		Guard outer{cleaned};
		[&] {
			Guard inner{cleaned};
			take(size, device, nullptr);
		}();
	} catch (const std::runtime_error &error) {
		std::strncpy(text, error.what(), room - 1);
		return cleaned == 2 && std::uncaught_exceptions() == 0 ? cleaned : -2;
	}
	return -1;
}

/* The other hooks that throw, each with an invalid argument. Returns the texts, one per line. */
void client_hooks(void *ptr, char *text, size_t room) {
	std::string all;
	auto told = [&](const std::function<void()> &what) {
		try {
			what();
			all += "nothing\n";
		} catch (const std::exception &error) {
			all += std::string(error.what()) + "\n";
		}
	};
	told([&] { record_stream_fn(ptr, nullptr); });
	told([&] { record_stream_fn(static_cast<char *>(ptr) + 1, nullptr); });
	told([&] { memory_fraction_fn(1.0, 0); });
	told([&] { memory_fraction_fn(0.001, 0); });
	size_t size = 0;
	told([&] {
		char *base = static_cast<char *>(base_alloc_fn(ptr, &size));
		if (base > ptr || base + size <= ptr)
			throw std::logic_error("the base is not around the block");
	});
	told([&] { base_alloc_fn(&size, &size); });
	std::strncpy(text, all.c_str(), room - 1);
}

/* Threads that allocate, write, fail and free. Returns the number of unexpected results. */
int client_hammer(int threads, int rounds) {
	std::vector<std::thread> all;
	std::vector<int> wrong(threads, 0);
	for (int number = 0; number < threads; number++)
		all.emplace_back([&, number] {
			std::vector<unsigned char *> mine;
			for (int round = 0; round < rounds; round++) {
				ssize_t size = 1 + (number * 7919 + round * 104729) % 5000;
				auto *ptr = static_cast<unsigned char *>(take(size, 0, nullptr));
				std::memset(ptr, number + 1, size);
				mine.push_back(ptr);
				if (round % 10 == 9)
					try {
						take(ssize_t{1} << 40, 0, nullptr);
						wrong[number]++;
					} catch (const std::runtime_error &error) {
						if (std::strstr(error.what(), " out of memory") == nullptr || std::uncaught_exceptions() != 0)
							wrong[number]++;
					}
				if (mine.size() > 8) {
					if (mine.front()[0] != number + 1)
						wrong[number]++;
					give(mine.front());
					mine.erase(mine.begin());
				}
			}
			for (auto *ptr : mine)
				give(ptr);
		});
	for (auto &thread : all)
		thread.join();
	int sum = 0;
	for (int each : wrong)
		sum += each;
	return sum;
}
}
