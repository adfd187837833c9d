/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a libcuda.so.1 what it answers without a device. It runs as a process of its own, because some answers are
 * crashes:
 *
 *     prober LIBRARY resolve     standard input: names, one a line ("-" is the empty one). Prints the answers of both
 *                                resolvers for every version and flag: "name flags version=result,function,result of
 *                                _v2,its status,its function ..."
 *     prober LIBRARY call        standard input: exported names. Calls each with every kind of arguments, each time in
 *                                a new process
 *     prober LIBRARY errors      names and texts of the numbers -1 to 1100, and whether the pointers are set
 *     prober LIBRARY process     what fork and dlclose do
 *     prober LIBRARY symbols     standard input: exported names. Prints for each in which file dlsym finds it, by the
 *                                library's handle, by RTLD_DEFAULT and by RTLD_NEXT: "name file file file"
 *
 * A function is printed as the name that the library exports it by, "?" if by none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const int versions[] = {
    INT_MIN,
    -1000,
    -1,
    0,
    1000,
    1999,
    2000,
    2010,
    2020,
    2030,
    3000,
    3010,
    3020,
    4000,
    4010,
    4020,
    5000,
    5050,
    6000,
    6050,
    7000,
    7050,
    8000,
    9000,
    9010,
    9020,
    10000,
    10010,
    10020,
    11000,
    11010,
    11020,
    11030,
    11040,
    11050,
    11060,
    11070,
    11080,
    12000,
    12010,
    12020,
    12030,
    12040,
    12050,
    12060,
    12080,
    12090,
    13000,
    13010,
    13020,
    13030,
    13040,
    13041,
    13050,
    99000,
    INT_MAX,
};
static const unsigned long long flags[] = {0, 1, 2, 3, 4, 8};

static const char *path;

/* "-" where the resolver has left the pointer alone */
static const char *name_of(void *place, void *untouched) {
	Dl_info found;
	if (place == untouched)
		return "-";
	if (place == NULL)
		return "NULL";
	return dladdr(place, &found) != 0 && found.dli_saddr == place ? found.dli_sname : "?";
}

static void *open_library(void) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "prober: %s\n", dlerror());
		exit(2);
	}
	return library;
}

static int read_name(char *name, size_t bytes) {
	if (fgets(name, (int)bytes, stdin) == NULL)
		return 0;
	name[strcspn(name, "\n")] = '\0';
	return 1;
}

/* A version is printed only where the answer differs from that for the version before. */
static void resolve(void) {
	void *library = open_library();
	int (*first)(const char *, void **, int, unsigned long long) = dlsym(library, "cuGetProcAddress");
	int (*second)(const char *, void **, int, unsigned long long, int *) = dlsym(library, "cuGetProcAddress_v2");
	char name[256];
	while (read_name(name, sizeof name)) {
		for (int f = 0; f < COUNT(flags); f++) {
			char before[256] = "";
			printf("%s %llu", name, flags[f]);
			for (int v = 0; v < COUNT(versions); v++) {
				const char *asked = strcmp(name, "-") == 0 ? "" : name;
				void *one = &library, *two = &library;
				int status = -1, first_result = -1, second_result = -1;
				if (first != NULL)
					first_result = first(asked, &one, versions[v], flags[f]);
				if (second != NULL)
					second_result = second(asked, &two, versions[v], flags[f], &status);
				char now[256];
				snprintf(now, sizeof now, "%d,%s,%d,%d,%s", first_result, name_of(one, &library), second_result, status,
				    name_of(two, &library));
				if (strcmp(now, before) != 0)
					printf(" %d=%s", versions[v], now);
				strcpy(before, now);
			}
			printf("\n");
		}
	}
}

typedef long (*any)(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long);

/*
 * More arguments than any function has: the callee ignores the rest. The buffer's address is fixed, because some
 * answers depend on its lower half, which is a number to functions that take one there.
 */
static long call_with(any function, char kind) {
	void *wanted = (void *)0x2000f0000000;
	char *buffer =
	    mmap(wanted, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (buffer != wanted)
		_exit(4);
	long at = (long)(buffer + 4096), first = kind == '0' ? 0 : at, rest = kind == 'b' ? at : 0;
	return function(first, rest, rest, rest, rest, rest, rest, rest, rest, rest, rest, rest, rest, rest, rest, rest);
}

/* Each answer from a process of its own. Prints the result, or the signal as "s11". */
static void ask(const char *name, char kind, int after) {
	int ends[2], status;
	fflush(stdout);
	if (pipe(ends) != 0)
		exit(2);
	pid_t child = fork();
	if (child == 0) {
		struct rlimit none = {0, 0};
		setrlimit(RLIMIT_CORE, &none);
		if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL)
			_exit(3);
		alarm(20);
		void *library = open_library();
		int (*init)(unsigned) = dlsym(library, "cuInit");
		any function = dlsym(library, name);
		if (after)
			init(0);
		int result = (int)call_with(function, kind);
		if (write(ends[1], &result, sizeof result) != (ssize_t)sizeof result)
			_exit(3);
		_exit(0);
	}
	close(ends[1]);
	int result, got = (int)read(ends[0], &result, sizeof result);
	close(ends[0]);
	waitpid(child, &status, 0);
	if (got == (int)sizeof result)
		printf(" %d", result);
	else if (WIFSIGNALED(status))
		printf(" s%d", WTERMSIG(status));
	else
		printf(" e%d", WEXITSTATUS(status));
}

/* "name: " and for before and after cuInit: all arguments 0, the first a buffer and the others 0, all a buffer of zeros
 */
static void call(void) {
	char name[256];
	while (read_name(name, sizeof name)) {
		printf("%s", name);
		for (int after = 0; after < 2; after++)
			for (const char *kind = "0ob"; *kind != '\0'; kind++)
				ask(name, *kind, after);
		printf("\n");
	}
}

static void errors(void) {
	void *library = open_library();
	int (*get_name)(int, const char **) = dlsym(library, "cuGetErrorName"),
	                                (*get_text)(int, const char **) = dlsym(library, "cuGetErrorString");
	for (int number = -1; number <= 1100; number++) {
		const char *name = "unset", *text = "unset";
		int a = get_name(number, &name), b = get_text(number, &text);
		printf("%d\t%d\t%s\t%d\t%s\n", number, a, name == NULL ? "NULL" : name, b, text == NULL ? "NULL" : text);
	}
}

static void process(void) {
	void *library = open_library();
	int (*init)(unsigned) = dlsym(library, "cuInit"), (*count)(int *) = dlsym(library, "cuDeviceGetCount"),
	    (*version)(int *) = dlsym(library, "cuDriverGetVersion");
	int number = 0, result = version(&number), devices = -1;
	printf("version %d %d\ninit-flags-1 %d\ninit %d\ninit-again %d\n", result, number, init(1), init(0), init(0));
	printf("count %d", count(&devices));
	printf(" %d\n", devices);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		printf("child-init %d\nchild-count %d\nchild-version %d\n", init(0), count(&devices), version(&number));
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	dlclose(library);
	printf("after-dlclose %s\n", dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL ? "loaded" : "unloaded");
}

static const char *file_of(void *place, char *room) {
	Dl_info found;
	if (place == NULL || dladdr(place, &found) == 0 || realpath(found.dli_fname, room) == NULL)
		return "none";
	return strrchr(room, '/') + 1;
}

static void symbols(void) {
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	static char name[256], one[PATH_MAX], other[PATH_MAX], third[PATH_MAX];
	while (library != NULL && read_name(name, sizeof name))
		printf("%s %s %s %s\n", name, file_of(dlsym(library, name), one), file_of(dlsym(RTLD_DEFAULT, name), other),
		    file_of(dlsym(RTLD_NEXT, name), third));
}

int main(int count, char **arguments) {
	if (count != 3) {
		fprintf(stderr, "usage: prober LIBRARY resolve|call|errors|process|symbols\n");
		return 2;
	}
	path = arguments[1];
	if (strcmp(arguments[2], "resolve") == 0)
		resolve();
	else if (strcmp(arguments[2], "call") == 0)
		call();
	else if (strcmp(arguments[2], "errors") == 0)
		errors();
	else if (strcmp(arguments[2], "symbols") == 0)
		symbols();
	else
		process();
	return 0;
}
