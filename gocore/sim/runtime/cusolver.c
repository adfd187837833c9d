/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuSOLVER. A solver computes nothing, and says on the card that it succeeded. The sizes of workspaces are in
 * cusolver_sizes.h; a solver that it does not have needs none here.
 */
#include "runtime.h"

#include "cusolver_sizes.h"

enum { ALLOC_FAILED = 2, EXECUTION_FAILED = 6, NOT_SUPPORTED_HERE = 9 };

OBJECT(cusolverDnCreate, cusolverDnDestroy, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusolverDnCreateParams, cusolverDnDestroyParams, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo, sizeof(struct follower), ALLOC_FAILED)

SETS(cusolverDnSetStream, struct follower, stream)

/* A solver that computes nothing says so on the card: its info is 0, as after a success. */
static int solve(const char *name, uintptr_t handle, uintptr_t info, int64_t count) {
	if (computes(name) != SUCCESS)
		return NOT_SUPPORTED_HERE;
	return succeed((const struct follower *)handle, info, count) == SUCCESS ? SUCCESS : EXECUTION_FAILED;
}

/* The places of the size and of the result, and of the number of matrices. */
#define SOLVES(name, info, count) \
	EXPORT int name(ARGUMENTS) { return solve(#name, a0, info, count); }
#define SOLVER(name, lwork, info, count) SIZED(name##_bufferSize, int, lwork) SOLVES(name, info, count)
#define REAL(M, name, ...) M(cusolverDnS##name, __VA_ARGS__) M(cusolverDnD##name, __VA_ARGS__)
#define COMPLEX(M, name, ...) M(cusolverDnC##name, __VA_ARGS__) M(cusolverDnZ##name, __VA_ARGS__)
#define ALL(M, name, ...) REAL(M, name, __VA_ARGS__) COMPLEX(M, name, __VA_ARGS__)

/* A size by a rule, in elements of 4, 8, 8 and 16 bytes. */
#define ASKED(name, lwork, size) \
	EXPORT int name##_bufferSize(ARGUMENTS) { \
		*(int *)(lwork) = (int)(size); \
		return SUCCESS; \
	}
#define EACH(letter, name, lwork, size, bytes) ASKED(cusolverDn##letter##name, lwork, (size) / (bytes))
#define REAL_OF(name, lwork, size, info) \
	EACH(S, name, lwork, size, 1) EACH(D, name, lwork, size, 1) REAL(SOLVES, name, info, 1)
#define COMPLEX_OF(name, lwork, size, info) \
	EACH(C, name, lwork, size, 1) EACH(Z, name, lwork, size, 1) COMPLEX(SOLVES, name, info, 1)
#define ALL_OF(name, lwork, size, info) REAL_OF(name, lwork, size, info) COMPLEX_OF(name, lwork, size, info)
#define IN_BYTES(name, lwork, size, info) \
	EACH(S, name, lwork, size(4), 4) \
	EACH(D, name, lwork, size(8), 8) \
	EACH(C, name, lwork, size(8), 8) EACH(Z, name, lwork, size(16), 16) ALL(SOLVES, name, info, 1)

#define ASKED_992(name, ...) ASKED(name, a11, 992)
#define POTRF(element) potrf_bytes((int)a1 == 1, (int)a2, element)
#define GETRF(element) getrf_bytes((int)a1, (int)a2)
IN_BYTES(potrf, a5, POTRF, a7)
ALL(SOLVES, potrs, a8, 1)
ALL(SOLVES, potrfBatched, a5, (int)a6)
ALL(SOLVES, potrsBatched, a8, 1)
IN_BYTES(getrf, a5, GETRF, a7)
ALL(SOLVES, getrs, a9, 1)
ALL_OF(geqrf, a5, geqrf((int)a2), a8)
REAL_OF(orgqr, a7, orgqr((int)a1, (int)a2, (int)a3), a9)
COMPLEX_OF(ungqr, a7, orgqr((int)a1, (int)a2, (int)a3), a9)
REAL_OF(ormqr, a11, ormqr((int)a3, (int)a4), a13)
COMPLEX_OF(unmqr, a11, ormqr((int)a3, (int)a4), a13)
EACH(S, sytrf, a4, sytrf((int)a1, 24608), 1)
EACH(D, sytrf, a4, sytrf((int)a1, 13328), 1)
EACH(C, sytrf, a4, sytrf((int)a1, 13328), 1)
EACH(Z, sytrf, a4, sytrf((int)a1, 11016), 1)
ALL(SOLVES, sytrf, a8, 1)
ALL_OF(gesvd, a3, gesvd((int)a2), a15)
REAL_OF(syevd, a7, syevd((int)a3), a9)
COMPLEX_OF(heevd, a7, syevd((int)a3), a9)
REAL_OF(syevj, a7, syevj((int)a3), a9)
COMPLEX_OF(heevj, a7, syevj((int)a3), a9)
REAL(SOLVER, syevjBatched, a7, a9, (int)a11)
COMPLEX(SOLVER, heevjBatched, a7, a9, (int)a11)
ALL_OF(gesvdj, a12, gesvdj((int)a3, (int)a4), a14)
ALL(ASKED_992, gesvdjBatched, 0)
ALL(SOLVES, gesvdjBatched, a13, (int)a15)
ALL(SOLVER, gesvdaStridedBatched, a16, a18, (int)a20)

/* The newer functions, for all types, have sizes for the card and the host. */
/* Bytes of an element of a cudaDataType: R_32F, R_64F, C_32F and C_64F are 0, 1, 4 and 5. */
static int64_t element_of(uintptr_t type) {
	unsigned number = (unsigned)type;
	return (number & 1 ? 8 : 4) * (number >= 4 ? 2 : 1);
}

#define CARD_SIZED(name, card, host, bytes) \
	EXPORT int name##_bufferSize(ARGUMENTS) { \
		*(size_t *)(card) = (size_t)(bytes); \
		NOTHING_TO(size_t, host); \
		return SUCCESS; \
	}
CARD_SIZED(cusolverDnXpotrf, a8, a9, potrf_bytes((int)a2 == 1, (int64_t)a3, element_of(a4)))
SOLVES(cusolverDnXpotrf, a12, 1)
SOLVES(cusolverDnXpotrs, a11, 1)
CARD_SIZED(cusolverDnXgeqrf, a10, a11, geqrf((int64_t)a3) * element_of(a4) + 128)
SOLVES(cusolverDnXgeqrf, a14, 1)
CARD_SIZED(cusolverDnXsytrs, a11, a12, 0)
SOLVES(cusolverDnXsytrs, a15, 1)
CARD_SIZED(cusolverDnXsyevd, a11, a12, syevd((int64_t)a4) * element_of(a5) + 128)
SOLVES(cusolverDnXsyevd, a15, 1)
CARD_SIZED(cusolverDnXsyevBatched, a11, a12, syev_batched_bytes((int64_t)a4, (int64_t)a13, element_of(a5)))
SOLVES(cusolverDnXsyevBatched, a15, (int64_t)a16)
CARD_SIZED(cusolverDnXgeev, a17, a18, 0)
SOLVES(cusolverDnXgeev, a21, 1)
