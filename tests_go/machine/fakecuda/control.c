// go:build cgo && linux

#include "control.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define FUNCTIONS(X) \
	X(void, fakecuda_restart, (void)) \
	X(void, fakecuda_clear, (void)) \
	X(void, fakecuda_fail, (const char *, unsigned long, int)) \
	X(void, fakecuda_delay, (unsigned)) \
	X(unsigned long, fakecuda_count, (const char *)) \
	X(unsigned long, fakecuda_fired, (void)) \
	X(const char *, fakecuda_fired_name, (void)) \
	X(int, fakecuda_live, (const char *)) \
	X(int, fakecuda_depth, (void)) \
	X(void *, fakecuda_current, (void)) \
	X(int, cuDevicePrimaryCtxRetain, (void **, int)) \
	X(int, cuDevicePrimaryCtxRelease_v2, (int)) \
	X(int, cuCtxCreate_v2, (void **, unsigned, int)) \
	X(int, cuCtxDestroy_v2, (void *)) \
	X(int, cuCtxSetCurrent, (void *)) \
	X(int, cuMemAlloc_v2, (unsigned long long *, size_t)) \
	X(int, cuMemcpyDtoD_v2, (unsigned long long, unsigned long long, size_t)) \
	X(int, cuMemFree_v2, (unsigned long long)) \
	X(int, cuStreamBeginCapture_v2, (void *, int)) \
	X(int, cuStreamEndCapture, (void *, void **)) \
	X(int, cuGraphInstantiateWithFlags, (void **, void *, unsigned long long)) \
	X(int, cuGraphLaunch, (void *, void *)) \
	X(int, cuGraphDestroy, (void *)) \
	X(int, cuGraphExecDestroy, (void *)) \
	X(int, fakecuda_graph_pieces, (void *))

static struct {
#define FIELD(type, name, parameters) type(*name) parameters;
	FUNCTIONS(FIELD)
#undef FIELD
} fake;

const char *attach(void) {
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (library == NULL)
		return dlerror();
#define BIND(type, name, parameters) \
	*(void **)&fake.name = dlsym(library, #name); \
	if (fake.name == NULL) \
		return "libcuda.so.1 is not the fake one: it lacks " #name;
	FUNCTIONS(BIND)
#undef BIND
	return NULL;
}

void control_restart(void) { fake.fakecuda_restart(); }
void control_clear(void) { fake.fakecuda_clear(); }
void control_fail(const char *name, unsigned long nth, int result) { fake.fakecuda_fail(name, nth, result); }
void control_delay(unsigned us) { fake.fakecuda_delay(us); }
unsigned long control_count(const char *name) { return fake.fakecuda_count(name); }
unsigned long control_fired(void) { return fake.fakecuda_fired(); }
const char *control_fired_name(void) { return fake.fakecuda_fired_name(); }
int control_live(const char *what) { return fake.fakecuda_live(what); }
int control_depth(void) { return fake.fakecuda_depth(); }
int control_retain(int device, void **context) { return fake.cuDevicePrimaryCtxRetain(context, device); }
int control_release(int device) { return fake.cuDevicePrimaryCtxRelease_v2(device); }
int control_create(int device, void **context) { return fake.cuCtxCreate_v2(context, 0, device); }
int control_destroy(void *context) { return fake.cuCtxDestroy_v2(context); }
int control_set_current(void *context) { return fake.cuCtxSetCurrent(context); }
int control_alloc(unsigned long long bytes, unsigned long long *addr) {
	return fake.cuMemAlloc_v2(addr, (size_t)bytes);
}
static void *handle(unsigned long long number) { return (void *)(uintptr_t)number; }

int control_begin_capture(unsigned long long stream, int mode) {
	return fake.cuStreamBeginCapture_v2(handle(stream), mode);
}

int control_end_capture(unsigned long long stream, unsigned long long *graph) {
	void *made = NULL;
	int result = fake.cuStreamEndCapture(handle(stream), &made);
	*graph = (uintptr_t)made;
	return result;
}

int control_instantiate(unsigned long long graph, unsigned long long *exec) {
	void *made = NULL;
	int result = fake.cuGraphInstantiateWithFlags(&made, handle(graph), 0);
	*exec = (uintptr_t)made;
	return result;
}

int control_launch(unsigned long long exec, unsigned long long stream) {
	return fake.cuGraphLaunch(handle(exec), handle(stream));
}
int control_graph_destroy(unsigned long long graph) { return fake.cuGraphDestroy(handle(graph)); }
int control_exec_destroy(unsigned long long exec) { return fake.cuGraphExecDestroy(handle(exec)); }
int control_graph_pieces(unsigned long long graph) { return fake.fakecuda_graph_pieces(handle(graph)); }
int control_free(unsigned long long addr) { return fake.cuMemFree_v2(addr); }

/* Copies a byte of device memory with the primary context of a device as the current one, as another library would. */
int control_copy(int device, unsigned long long addr) {
	void *context = NULL;
	unsigned long long own = 0;
	int result = fake.cuDevicePrimaryCtxRetain(&context, device);
	if (result != 0)
		return result;
	fake.cuCtxSetCurrent(context);
	result = fake.cuMemAlloc_v2(&own, 1);
	if (result == 0) {
		result = fake.cuMemcpyDtoD_v2(own, addr, 1);
		fake.cuMemFree_v2(own);
	}
	fake.cuCtxSetCurrent(NULL);
	fake.cuDevicePrimaryCtxRelease_v2(device);
	return result;
}

void *control_current(void) { return fake.fakecuda_current(); }
