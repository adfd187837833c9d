/*
 * Functions of the CUDA driver that PyTorch and Numba call and gpuconf does not: compiled into the driver of tests_go/fakecuda. For
 * one GPU.
 */
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC visibility push(default)

unsigned long fakecuda_count(const char *name);

/* The number of waits for a context. */
int fakecuda_synchronized(void) { return (int)fakecuda_count("cuCtxSynchronize"); }

int cuGetErrorName(int error, const char **text)
{
	*text = "CUDA_ERROR";
	return 0;
}

int cuGetErrorString(int error, const char **text)
{
	*text = "an error";
	return 0;
}
