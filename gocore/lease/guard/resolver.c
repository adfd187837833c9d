/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress, in both forms. The driver chooses the form of a function by the version that the program passes;
 * the guard never does. It asks the driver beforehand for each form that it stands before, and when one of those
 * addresses comes back later, it returns its own function in place of it.
 */
#include "guard.h"

#include <string.h>

enum { ROOM = 2048 }; /* at least twice the hooks */

static struct {
	void *drivers, *ours;
} known[ROOM]; /* by the driver's address; open addressing */

static const struct form {
	const char *exported, *base;
	int version, flag;
	void *ours;
	const void *exports; /* where the driver's exported function is, NULL if it has none */
} forms[] = {
#define FORM(name, base, version, flag, parameters, arguments) {#name, base, version, flag, (void *)name, &real.name},
#define GATED(name, base, version, flag, parameters, arguments) {#name, base, version, flag, (void *)name, &gated.name},
    GATED_HOOKS(GATED) CUDA_HOOKS(FORM)
#undef FORM
#undef GATED
    /* Base names that got another form in a later version. */
    {"cuGraphInstantiateWithFlags", "cuGraphInstantiate", 12000, 0, (void *)cuGraphInstantiateWithFlags,
        &real.cuGraphInstantiateWithFlags},
    {"cuCtxCreate_v4", "cuCtxCreate", 13000, 0, (void *)cuCtxCreate_v4, &real.cuCtxCreate_v4},
};

/* The first forms are those of gated.h, whose variants need not be counted. */
#define COUNT(name, base, version, flag, parameters, arguments) +1
enum { GATED_FORMS = 0 GATED_HOOKS(COUNT) };
#undef COUNT

static unsigned int home(const void *address) {
	return (unsigned int)(((uintptr_t)address * UINT64_C(0x9E3779B97F4A7C15)) >> 53);
}

static void learn(void *drivers, void *ours) {
	unsigned int i = home(drivers);

	if (drivers == NULL)
		return;
	while (known[i].drivers != NULL && known[i].drivers != drivers)
		i = (i + 1) % ROOM;
	known[i].drivers = drivers;
	known[i].ours = ours;
}

static void *asked(const struct form *form) {
	void *address = NULL;
	int status = 0;

	if (real.cuGetProcAddress_v2 != NULL && INSIDE(real.cuGetProcAddress_v2(form->base, &address, form->version,
	                                            (uint64_t)form->flag, &status)) == CUDA_SUCCESS)
		return address;
	if (real.cuGetProcAddress != NULL &&
	    INSIDE(real.cuGetProcAddress(form->base, &address, form->version, (uint64_t)form->flag)) == CUDA_SUCCESS)
		return address;
	return NULL;
}

/*
 * Addresses of exported functions come last, and forms that the driver does not export are not requested: a resolver
 * that has no form of a version may return another form's.
 */
void learn_addresses(void) {
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (*(void *const *)forms[i].exports != NULL)
			learn(asked(&forms[i]), forms[i].ours);
#define EXPORTED(name, base, version, flag, parameters, arguments) learn((void *)real.name, (void *)name);
	CUDA_HOOKS(EXPORTED)
#undef EXPORTED
#define EXPORTED(name, base, version, flag, parameters, arguments) learn((void *)gated.name, (void *)name);
	GATED_HOOKS(EXPORTED)
#undef EXPORTED
}

static void *ours(const char *symbol, void *drivers) {
	if (drivers == NULL)
		return drivers;
	for (unsigned int i = home(drivers); known[i].drivers != NULL; i = (i + 1) % ROOM)
		if (known[i].drivers == drivers)
			return known[i].ours;
	for (size_t i = GATED_FORMS; i < sizeof forms / sizeof *forms; i++)
		if (strcmp(forms[i].base, symbol) == 0) {
			note("the driver has a variant of %s that this version of gpuconf does not know: calls to it are not "
			     "counted",
			    symbol);
			break;
		}
	return drivers;
}

#define RESOLVE(call) \
	CUresult result = INSIDE(call); \
	if (result == CUDA_SUCCESS && symbol != NULL && out != NULL) \
		*out = ours(symbol, *out); \
	return result

EXPORT CUresult cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags) {
	if (inside)
		return real.cuGetProcAddress != NULL ? real.cuGetProcAddress(symbol, out, version, flags)
		                                     : CUDA_ERROR_NOT_SUPPORTED;
	start();
	if (!HAS(cuGetProcAddress))
		return CUDA_ERROR_NOT_SUPPORTED;
	RESOLVE(real.cuGetProcAddress(symbol, out, version, flags));
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *status) {
	if (inside)
		return real.cuGetProcAddress_v2 != NULL ? real.cuGetProcAddress_v2(symbol, out, version, flags, status)
		                                        : CUDA_ERROR_NOT_SUPPORTED;
	start();
	if (!HAS(cuGetProcAddress_v2))
		return CUDA_ERROR_NOT_SUPPORTED;
	RESOLVE(real.cuGetProcAddress_v2(symbol, out, version, flags, status));
}
