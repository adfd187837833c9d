/*
 * A library that imports cudaMalloc and cudaFree like PyTorch's libc10_cuda.so, with the two functions that return
 * PyTorch's current stream, and (with -DRUNTIME) the CUDA runtime behind it, which counts.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef RUNTIME

int runtime_mallocs, runtime_frees;

int cudaGetDevice(int *device) {
	*device = 0;
	return 0;
}
int cudaMalloc(void **ptr, size_t size) {
	runtime_mallocs++;
	*ptr = malloc(size);
	return *ptr == NULL ? 2 : 0;
}
int cudaFree(void *ptr) {
	runtime_frees++;
	free(ptr);
	return 0;
}

#else

int cudaGetDevice(int *device);
int cudaMalloc(void **ptr, size_t size);
int cudaFree(void *ptr);

struct stream {
	int16_t device;
	int64_t id;
};

static __thread void *current;

struct stream current_stream(signed char device) __asm__("_ZN3c104cuda20getCurrentCUDAStreamEa");
struct stream current_stream(signed char device) { return (struct stream){device, (int64_t)current}; }

void *stream_handle(const struct stream *stream) __asm__("_ZNK3c104cuda10CUDAStream6streamEv");
void *stream_handle(const struct stream *stream) { return (void *)stream->id; }

void client_set_stream(void *stream) { current = stream; }
int client_malloc(void **ptr, size_t size) { return cudaMalloc(ptr, size); }
int client_free(void *ptr) { return cudaFree(ptr); }
int client_device(void) {
	int device = -1;
	cudaGetDevice(&device);
	return device;
}

#endif
