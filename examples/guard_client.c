/*
 * A CUDA program that knows nothing of gpuconf: it allocates 64 MiB at a time until the driver refuses.
 *
 *     cc guard_client.c -o guard_client -ldl
 *     gpuconf run --guard=proxy --memory 512MiB -- ./guard_client
 *
 * Without a GPU, the test driver of the checkout shows it:
 *
 *     mkdir driver && python tests_go/machine/fakecuda/build.py driver
 *     LD_LIBRARY_PATH=driver FAKECUDA_MEMORY=17179869184 gpuconf run --guard=proxy --memory 512MiB -- ./guard_client
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

static void *library;

static void *function(const char *name) {
	void *found = dlsym(library, name);
	if (found == NULL)
		fprintf(stderr, "the driver lacks %s\n", name);
	return found;
}

int main(void) {
	const size_t chunk = (size_t)64 << 20;
	size_t available = 0, total = 0;
	unsigned long long address;
	void *context;
	int count = 0, result;

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	int (*initialize)(unsigned) = (int (*)(unsigned))function("cuInit");
	int (*retain)(void **, int) = (int (*)(void **, int))function("cuDevicePrimaryCtxRetain");
	int (*set_current)(void *) = (int (*)(void *))function("cuCtxSetCurrent");
	int (*get_info)(size_t *, size_t *) = (int (*)(size_t *, size_t *))function("cuMemGetInfo_v2");
	int (*allocate)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))function("cuMemAlloc_v2");
	if (!initialize || !retain || !set_current || !get_info || !allocate)
		return 1;
	if (initialize(0) != 0 || retain(&context, 0) != 0 || set_current(context) != 0) {
		fprintf(stderr, "the driver does not start\n");
		return 1;
	}
	get_info(&available, &total);
	printf("the GPU has %zu MiB, %zu free\n", total >> 20, available >> 20);
	while ((result = allocate(&address, chunk)) == 0)
		count++;
	get_info(&available, &total);
	printf("allocated %d x 64 MiB, then result %d; %zu MiB free\n", count, result, available >> 20);
	return 0;
}
