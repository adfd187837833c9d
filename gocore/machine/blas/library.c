// SPDX-License-Identifier: Apache-2.0
// go:build cgo && linux && (amd64 || arm64)
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* How libraries name cblas_sgemm: what they put before and behind. Those with 64-bit integers come first, since MKL has
 * both. */
static const struct {
	const char *before, *behind;
	int wide;
} symbols[] = {
    {"scipy_", "64_", 1},
    {"", "64_", 1},
    {"", "_64", 1},
    {"scipy_", "", 0},
    {"", "", 0},
};

#define NAMINGS ((int)(sizeof symbols / sizeof symbols[0]))

static void *find(void *library, int naming, const char *name) {
	char full[64];
	snprintf(full, sizeof full, "%s%s%s", symbols[naming].before, name, symbols[naming].behind);
	return dlsym(library, full);
}

static int find_functions(void *library, int naming, struct blas_functions *functions) {
	*(void **)&functions->sgemm = find(library, naming, "cblas_sgemm");
	*(void **)&functions->dgemm = find(library, naming, "cblas_dgemm");
	*(void **)&functions->sgemv = find(library, naming, "cblas_sgemv");
	*(void **)&functions->dgemv = find(library, naming, "cblas_dgemv");
	return functions->sgemm != NULL && functions->dgemm != NULL && functions->sgemv != NULL && functions->dgemv != NULL;
}

typedef const char *text_function(void);
typedef int number_function(void);
typedef int64_t wide_function(void);
typedef void write_function(char *, int);

static void *any_of(void *library, int naming, const char *name) {
	void *found = find(library, naming, name);
	return found != NULL ? found : dlsym(library, name);
}

/* Each library has functions of its own about itself. */
static void tell(void *library, int naming, struct blas_load_answer *answer) {
	text_function *text;
	number_function *number;
	wide_function *wide;
	write_function *write;
	if ((*(void **)&text = any_of(library, naming, "openblas_get_config")) != NULL) {
		snprintf(answer->kind, sizeof answer->kind, "OpenBLAS");
		snprintf(answer->version, sizeof answer->version, "%s", text());
		if ((*(void **)&number = any_of(library, naming, "openblas_get_num_threads")) != NULL)
			answer->threads = number();
	} else if ((*(void **)&write = dlsym(library, "MKL_Get_Version_String")) != NULL) {
		snprintf(answer->kind, sizeof answer->kind, "MKL");
		write(answer->version, sizeof answer->version - 1);
		if ((*(void **)&number = dlsym(library, "MKL_Get_Max_Threads")) != NULL)
			answer->threads = number();
	} else if ((*(void **)&text = dlsym(library, "bli_info_get_version_str")) != NULL) {
		snprintf(answer->kind, sizeof answer->kind, "BLIS");
		snprintf(answer->version, sizeof answer->version, "%s", text());
		if ((*(void **)&wide = dlsym(library, "bli_thread_get_num_threads")) != NULL)
			answer->threads = (int)wide(); /* -1 if nothing sets it: one thread */
		answer->threads = answer->threads < 1 ? 1 : answer->threads;
	} else if (dlsym(library, "ATL_buildinfo") != NULL) {
		snprintf(answer->kind, sizeof answer->kind, "ATLAS");
	}
}

void blas_load(const char *path, int only_loaded, struct blas_load_answer *answer) {
	memset(answer, 0, sizeof *answer);
	answer->state = BLAS_NO_LIBRARY;
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | (only_loaded ? RTLD_NOLOAD : 0));
	if (library == NULL) {
		const char *complaint = dlerror();
		if (!only_loaded)
			snprintf(answer->text, sizeof answer->text, "%s", complaint != NULL ? complaint : path);
		return;
	}
	int naming = 0;
	while (naming < NAMINGS && !find_functions(library, naming, &answer->functions))
		naming++;
	if (naming == NAMINGS) {
		answer->state = BLAS_INCOMPLETE;
		return;
	}
	answer->state = BLAS_LOADED;
	answer->wide = symbols[naming].wide;
	tell(library, naming, answer);
	Dl_info where;
	if (dladdr((void *)answer->functions.sgemm, &where) != 0 && where.dli_fname != NULL)
		snprintf(answer->path, sizeof answer->path, "%s", where.dli_fname);
}

/* The beginnings of the names of the files of BLAS libraries. */
static const char *const names[] = {
    "libscipy_openblas", "libopenblas", "libmkl_rt.", "libblis", "libcblas", "libblas", "libsatlas", "libtatlas"};

struct listing {
	char *next, *end;
};

static int list_one(struct dl_phdr_info *one, size_t size, void *data) {
	(void)size;
	struct listing *to = data;
	const char *slash = strrchr(one->dlpi_name, '/');
	const char *file = slash != NULL ? slash + 1 : one->dlpi_name;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		size_t length = strlen(one->dlpi_name);
		if (strncmp(file, names[i], strlen(names[i])) != 0 || (size_t)(to->end - to->next) <= length + 1)
			continue;
		memcpy(to->next, one->dlpi_name, length);
		to->next += length;
		*to->next++ = '\n';
		*to->next = '\0';
		break;
	}
	return 0;
}

void blas_loaded(char *paths, int size) {
	struct listing to = {paths, paths + size};
	*paths = '\0';
	dl_iterate_phdr(list_one, &to);
}

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

static int operation(int transposed) { return transposed ? TRANS : NO_TRANS; }

/* matrix_times_vector computes op(matrix) × vector. The result has rows elements. */
static void matrix_times_vector(const struct blas_functions *library, int is_double, int transposed, int64_t rows,
    int64_t inner, uint64_t matrix, uint64_t vector, uint64_t result) {
	int64_t stored_rows = transposed ? inner : rows, stored_columns = transposed ? rows : inner;
	if (is_double)
		library->dgemv(ROW_MAJOR, operation(transposed), stored_rows, stored_columns, 1, (const double *)matrix,
		    stored_columns, (const double *)vector, 1, 0, (double *)result, 1);
	else
		library->sgemv(ROW_MAJOR, operation(transposed), stored_rows, stored_columns, 1, (const float *)matrix,
		    stored_columns, (const float *)vector, 1, 0, (float *)result, 1);
}

void blas_multiply(const struct blas_functions *library, const struct blas_product *p) {
	int64_t lda = p->trans_a ? p->m : p->k, ldb = p->trans_b ? p->k : p->n;
	if (p->n == 1)
		matrix_times_vector(library, p->is_double, p->trans_a, p->m, p->k, p->a, p->b, p->c);
	else if (p->m == 1) /* a row is a vector from the left: the other operand, transposed, times the vector */
		matrix_times_vector(library, p->is_double, !p->trans_b, p->n, p->k, p->b, p->a, p->c);
	else if (p->is_double)
		library->dgemm(ROW_MAJOR, operation(p->trans_a), operation(p->trans_b), p->m, p->n, p->k, 1,
		    (const double *)p->a, lda, (const double *)p->b, ldb, 0, (double *)p->c, p->n);
	else
		library->sgemm(ROW_MAJOR, operation(p->trans_a), operation(p->trans_b), p->m, p->n, p->k, 1,
		    (const float *)p->a, lda, (const float *)p->b, ldb, 0, (float *)p->c, p->n);
}
