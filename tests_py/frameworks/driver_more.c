/* Compiled into the simulated driver for the tests with PyTorch, CuPy and Numba. */
#pragma GCC visibility push(default)

unsigned long fakecuda_count(const char *name);

/* The number of waits for a context. */
int fakecuda_synchronized(void) { return (int)fakecuda_count("cuCtxSynchronize"); }
