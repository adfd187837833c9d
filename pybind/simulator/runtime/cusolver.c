/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuSOLVER. A solver computes nothing, and says on the card that it succeeded. NVIDIA documents no size of a workspace: no solver needs one here.
 */
#include "unmarked.h"

#include "arguments.h"

#include <stdlib.h>

enum { ALLOC_FAILED = 2, NOT_SUPPORTED_HERE = 9 };

#define OBJECT(create, destroy) \
	EXPORT int create(void **out) { return make(out, sizeof(struct follower)) ? SUCCESS : ALLOC_FAILED; } \
	EXPORT int destroy(void *object) { \
		free(object); \
		return SUCCESS; \
	}
OBJECT(cusolverDnCreate, cusolverDnDestroy)
OBJECT(cusolverDnCreateParams, cusolverDnDestroyParams)
OBJECT(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo)
OBJECT(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo)

EXPORT int cusolverDnSetStream(struct follower *handle, void *stream) {
	handle->stream = stream;
	return SUCCESS;
}

#define SETS(name) \
	EXPORT int name(void) { return SUCCESS; }
SETS(cusolverDnXsyevjSetSortEig)
SETS(cusolverDnXgesvdjSetTolerance)
SETS(cusolverDnXgesvdjSetMaxSweeps)
SETS(cusolverDnXgesvdjSetSortEig)

static int solve(const char *name, uintptr_t handle, uintptr_t info, int64_t count) {
	if (computes(name) != SUCCESS)
		return NOT_SUPPORTED_HERE;
	return succeed((const struct follower *)handle, info, count) == SUCCESS ? SUCCESS : 6; /* CUSOLVER_STATUS_EXECUTION_FAILED */
}

/* The places of the size and of the result, and of the number of matrices. */
#define SIZED(name, lwork) \
	EXPORT int name##_bufferSize(ARGUMENTS) { \
		NOTHING_TO(int, lwork); \
		return SUCCESS; \
	}
#define SOLVES(name, info, count) \
	EXPORT int name(ARGUMENTS) { return solve(#name, a0, info, count); }
#define SOLVER(name, lwork, info, count) SIZED(name, lwork) SOLVES(name, info, count)
#define REAL(M, name, ...) M(cusolverDnS##name, __VA_ARGS__) M(cusolverDnD##name, __VA_ARGS__)
#define COMPLEX(M, name, ...) M(cusolverDnC##name, __VA_ARGS__) M(cusolverDnZ##name, __VA_ARGS__)
#define ALL(M, name, ...) REAL(M, name, __VA_ARGS__) COMPLEX(M, name, __VA_ARGS__)

ALL(SOLVER, potrf, a5, a7, 1)
ALL(SOLVES, potrs, a8, 1)
ALL(SOLVES, potrfBatched, a5, (int)a6)
ALL(SOLVES, potrsBatched, a8, 1)
ALL(SOLVER, getrf, a5, a7, 1)
ALL(SOLVES, getrs, a9, 1)
ALL(SOLVER, geqrf, a5, a8, 1)
REAL(SOLVER, orgqr, a7, a9, 1)
COMPLEX(SOLVER, ungqr, a7, a9, 1)
REAL(SOLVER, ormqr, a11, a13, 1)
COMPLEX(SOLVER, unmqr, a11, a13, 1)
ALL(SOLVER, sytrf, a4, a8, 1)
ALL(SOLVER, gesvd, a3, a15, 1)
REAL(SOLVER, syevd, a7, a9, 1)
COMPLEX(SOLVER, heevd, a7, a9, 1)
REAL(SOLVER, syevj, a7, a9, 1)
COMPLEX(SOLVER, heevj, a7, a9, 1)
REAL(SOLVER, syevjBatched, a7, a9, (int)a11)
COMPLEX(SOLVER, heevjBatched, a7, a9, (int)a11)
ALL(SOLVER, gesvdj, a12, a14, 1)
ALL(SOLVER, gesvdjBatched, a11, a13, (int)a15)
ALL(SOLVER, gesvdaStridedBatched, a16, a18, (int)a20)

/* The newer functions, for all types, have sizes for the card and the host. */
#define TWICE_SIZED(name, card, host) \
	EXPORT int name##_bufferSize(ARGUMENTS) { \
		NOTHING_TO(size_t, card); \
		NOTHING_TO(size_t, host); \
		return SUCCESS; \
	}
TWICE_SIZED(cusolverDnXpotrf, a8, a9)
SOLVES(cusolverDnXpotrf, a12, 1)
SOLVES(cusolverDnXpotrs, a11, 1)
TWICE_SIZED(cusolverDnXgeqrf, a10, a11)
SOLVES(cusolverDnXgeqrf, a14, 1)
TWICE_SIZED(cusolverDnXsytrs, a11, a12)
SOLVES(cusolverDnXsytrs, a15, 1)
TWICE_SIZED(cusolverDnXsyevd, a11, a12)
SOLVES(cusolverDnXsyevd, a15, 1)
TWICE_SIZED(cusolverDnXsyevBatched, a11, a12)
SOLVES(cusolverDnXsyevBatched, a15, (int64_t)a16)
TWICE_SIZED(cusolverDnXgeev, a17, a18)
SOLVES(cusolverDnXgeev, a21, 1)
