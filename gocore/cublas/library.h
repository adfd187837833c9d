/* The library: loaded once, and its functions in one table. */
#ifndef GPUCONF_CUBLAS_LIBRARY_H
#define GPUCONF_CUBLAS_LIBRARY_H

#include "symbols.h"

#pragma GCC visibility push(hidden)

struct cublas_functions {
#define FIELD(name, major, parameters) cublasStatus_t(*name) parameters;
	CUBLAS_SYMBOLS(FIELD)
#undef FIELD
};

/* Filled by cublas_load, before any call; NULL where the library lacks a function. */
extern struct cublas_functions cublas;

/* What a call answers that needs functions which the library lacks: below every status. */
#define MISSING_64 (-1)

enum cublas_load_state {
	CUBLAS_LOADED,
	CUBLAS_NO_LIBRARY, /* the loader's complaint is in text; none where the process has not loaded what was asked for */
	CUBLAS_INCOMPLETE, /* the required function named in text is missing, or does not answer */
};

struct cublas_load_answer {
	enum cublas_load_state state;
	int version[3];
	char text[1024];
};

/*
 * cublas_load opens the library at path and fills the table; before, where not NULL, is loaded first. only_loaded wants a library that
 * the process has already. The library stays loaded for good, whatever comes of it.
 */
void cublas_load(const char *before, const char *path, int only_loaded, struct cublas_load_answer *answer);

#pragma GCC visibility pop

#endif
