/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVRTC: a program compiles to PTX with an empty kernel for each kernel of the source that has a name of C, and for
 * each name expression. The simulated driver finds them there. Nothing else of the source is checked.
 */
#include "runtime.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OUT_OF_MEMORY = 1,
	INVALID_INPUT = 3,
	INVALID_PROGRAM = 4,
	NO_EXPRESSIONS_AFTER = 8,
	NO_NAMES_BEFORE = 9,
	EXPRESSION_NOT_VALID = 10
};

struct expression {
	char *text, lowered[32];
	struct expression *next;
};

struct program {
	char *source, *ptx; /* ptx: NULL before it is compiled */
	struct expression *expressions;
};

EXPORT int nvrtcVersion(int *major, int *minor) {
	NEED(major && minor, INVALID_INPUT);
	*major = versions.cuda / 1000;
	*minor = versions.cuda % 1000 / 10;
	return SUCCESS;
}

STATUS_TEXTS(nvrtcGetErrorString, "NVRTC_ERROR unknown", {SUCCESS, "NVRTC_SUCCESS"},
    {OUT_OF_MEMORY, "NVRTC_ERROR_OUT_OF_MEMORY"}, {2, "NVRTC_ERROR_PROGRAM_CREATION_FAILURE"},
    {INVALID_INPUT, "NVRTC_ERROR_INVALID_INPUT"}, {INVALID_PROGRAM, "NVRTC_ERROR_INVALID_PROGRAM"},
    {5, "NVRTC_ERROR_INVALID_OPTION"}, {6, "NVRTC_ERROR_COMPILATION"}, {7, "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"},
    {NO_EXPRESSIONS_AFTER, "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION"},
    {NO_NAMES_BEFORE, "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION"},
    {EXPRESSION_NOT_VALID, "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID"}, {11, "NVRTC_ERROR_INTERNAL_ERROR"})

EXPORT int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int headers,
    const char *const *texts, const char *const *include_names) {
	(void)name, (void)headers, (void)texts, (void)include_names;
	NEED(out && source, INVALID_INPUT);
	struct program *program = calloc(1, sizeof *program);
	if (program == NULL || (program->source = strdup(source)) == NULL) {
		free(program);
		return OUT_OF_MEMORY;
	}
	*out = program;
	return SUCCESS;
}

/* The caller's handle becomes NULL, as documented. */
EXPORT int nvrtcDestroyProgram(struct program **handle) {
	NEED(handle && *handle, INVALID_PROGRAM);
	for (struct expression *expression = (*handle)->expressions, *next; expression != NULL; expression = next) {
		next = expression->next;
		free(expression->text);
		free(expression);
	}
	free((*handle)->source);
	free((*handle)->ptx);
	free(*handle);
	*handle = NULL;
	return SUCCESS;
}

/* Each has a name of its own in the process: a lowered name that two programs share would be one kernel. */
EXPORT int nvrtcAddNameExpression(struct program *program, const char *text) {
	static unsigned last;
	NEED(program, INVALID_PROGRAM);
	if (program->ptx != NULL)
		return NO_EXPRESSIONS_AFTER;
	struct expression *new = calloc(1, sizeof *new);
	if (new == NULL || (new->text = strdup(text)) == NULL) {
		free(new);
		return OUT_OF_MEMORY;
	}
	snprintf(new->lowered, sizeof new->lowered, "_gpuconf_kernel_%u", __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED));
	new->next = program->expressions;
	program->expressions = new;
	return SUCCESS;
}

static int is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The name before the parenthesis that opens a kernel's parameters. What the attribute __launch_bounds__ has in its own
 * is passed over. */
static size_t name_in_source(const char *at, const char **name) {
	static const char bounds[] = "__launch_bounds__";
	for (;;) {
		const char *open = at + strcspn(at, "(;{");
		if (*open != '(')
			return 0;
		const char *end = open;
		while (end > at && isspace((unsigned char)end[-1]))
			end--;
		const char *begin = end;
		while (begin > at && is_name(begin[-1]))
			begin--;
		if ((size_t)(end - begin) != sizeof bounds - 1 || memcmp(begin, bounds, sizeof bounds - 1) != 0) {
			*name = begin;
			return (size_t)(end - begin);
		}
		int depth = 0;
		for (at = open; *at != 0; at++) {
			depth += (*at == '(') - (*at == ')');
			if (depth == 0)
				break;
		}
	}
}

/* The least that is a module: the simulated driver reads the names of entries, and nothing else. */
static void write_ptx(const struct program *program, FILE *file) {
	static const char global[] = "__global__";
	const char *name;
	fprintf(file, ".version 8.0\n.target sm_50\n.address_size 64\n");
	for (const char *at = program->source; (at = strstr(at, global)) != NULL;) {
		at += sizeof global - 1;
		size_t length = name_in_source(at, &name);
		if (length > 0)
			fprintf(file, ".visible .entry %.*s()\n{\n\tret;\n}\n", (int)length, name);
	}
	for (const struct expression *expression = program->expressions; expression != NULL; expression = expression->next)
		fprintf(file, ".visible .entry %s()\n{\n\tret;\n}\n", expression->lowered);
}

/* A program may be compiled again; the newer PTX is the one that counts. */
EXPORT int nvrtcCompileProgram(struct program *program, int count, const char *const *options) {
	(void)count, (void)options;
	char *ptx = NULL;
	size_t bytes;
	NEED(program, INVALID_PROGRAM);
	FILE *file = open_memstream(&ptx, &bytes);
	NEED(file, OUT_OF_MEMORY);
	write_ptx(program, file);
	if (fclose(file) != 0)
		return OUT_OF_MEMORY;
	free(program->ptx);
	program->ptx = ptx;
	return SUCCESS;
}

EXPORT int nvrtcGetLoweredName(const struct program *program, const char *text, const char **lowered) {
	if (program == NULL || program->ptx == NULL)
		return program == NULL ? INVALID_PROGRAM : NO_NAMES_BEFORE;
	for (const struct expression *expression = program->expressions; expression != NULL; expression = expression->next)
		if (strcmp(expression->text, text) == 0) {
			*lowered = expression->lowered;
			return SUCCESS;
		}
	return EXPRESSION_NOT_VALID;
}

/* An image for one architecture is the PTX, too: the simulated driver takes either. */
#define RESULT(name) \
	EXPORT int nvrtcGet##name##Size(const struct program *program, size_t *bytes) { \
		if (program == NULL || program->ptx == NULL) \
			return INVALID_PROGRAM; \
		*bytes = strlen(program->ptx) + 1; \
		return SUCCESS; \
	} \
	EXPORT int nvrtcGet##name(const struct program *program, char *out) { \
		if (program == NULL || program->ptx == NULL) \
			return INVALID_PROGRAM; \
		strcpy(out, program->ptx); \
		return SUCCESS; \
	}
RESULT(PTX)
RESULT(CUBIN)

EXPORT int nvrtcGetProgramLogSize(const struct program *program, size_t *bytes) {
	*bytes = 1;
	return program == NULL ? INVALID_PROGRAM : SUCCESS;
}

EXPORT int nvrtcGetProgramLog(const struct program *program, char *out) {
	*out = 0;
	return program == NULL ? INVALID_PROGRAM : SUCCESS;
}
