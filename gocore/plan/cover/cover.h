/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpuconf-cover runs a program that can change nothing of the machine: the kernel sees to it, not a list of functions.
 *
 * The parent talks with it over a socket of packets (--control): the launcher names the covers that this machine
 * refused, then "ready" with two descriptors, the folder of the report and the folder with what the program writes; the
 * parent answers "go". At the end comes "status". Closing the socket ends the program with all that it has started.
 *
 * 1. Nothing that the program writes reaches a file of the machine: each writable folder is an overlay in memory, or
 * read-only.
 * 2. No process of it outlives the launcher or the parent: they are in a namespace whose first process ends with both,
 * or have a subreaper for an ancestor.
 * 3. A cover is whole or is not used: it is tried in a process of its own, and the program starts after the last step.
 */
#ifndef GPUCONF_COVER_H
#define GPUCONF_COVER_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define INSIDE "/run/gpuconf" /* the folder of the report, as the program sees it */
#define SOCKETS_MOST 64

/* Of messages between these processes. The second and third mean nothing to such sockets, and no program passes them:
 * so a mirror's filter, which must not ask before anybody listens, knows the message that names the listener. */
#define FLAGS_OF_TELL (MSG_NOSIGNAL | MSG_CONFIRM | MSG_DONTROUTE)

/* A descriptor, a folder or a file that is closed at the end of its block, unless it could not be opened. */
static inline void close_descriptor(const int *descriptor) {
	if (*descriptor >= 0)
		close(*descriptor);
}
static inline void close_folder(DIR *const *folder) {
	if (*folder != NULL)
		closedir(*folder);
}
#define CLOSED_INT __attribute__((cleanup(close_descriptor))) int
#define CLOSED_DIR __attribute__((cleanup(close_folder))) DIR

enum kind {
	ROOT,        /* overlays by root */
	USER,        /* overlays in a user namespace */
	MIRROR,      /* a copy of the working folder; Landlock refuses all other writes */
	UNPROTECTED, /* nothing, but that all processes end */
	KINDS
};

struct request {
	int control;
	int only;                              /* a kind, or -1 for the first that works */
	bool network;                          /* whether the program has the machine's */
	long long writes;                      /* bytes that it may write */
	const char *preload;                   /* a library for every program inside, or NULL */
	const char *mapped;                    /* the library of a mirror (mapped/), or NULL */
	const char *sockets[SOCKETS_MOST + 1]; /* paths of sockets that stay what they are */
	char **words;
	char folder[PATH_MAX]; /* the working folder */
};

struct cover {
	int report, layers;    /* folders; -1 if there is none */
	char inside[PATH_MAX]; /* the folder of the report, as the program sees it */
	const char *mirror;    /* the folder of a mirror, which is removed at the end, or NULL */
	char folder[PATH_MAX]; /* the program's working folder */
	char what[512];        /* which step failed, or what a reader has to know */
	bool first;            /* whether this is the first process of a namespace of processes */
};

extern const char *const kind_names[KINDS];

/* Keep which step failed, with the error of the system. Returns false. */
bool failed(struct cover *cover, const char *step, const char *path);

/* The next entry of a folder, which may be NULL, besides itself and its parent. */
const char *next_entry(DIR *folder);

/* Reads a file as a text, as much as there is room for; "" if it cannot be read. Returns its length, or -1. */
ssize_t read_text(const char *path, char *text, size_t room);

/* overlays.c: a tree of overlays becomes the root of this mount namespace. */
bool overlays_enter(const struct request *request, struct cover *cover, enum kind kind);

/* copy.c */
#define COPY_FILES_MOST 50000
#define COPY_BYTES_MOST (2LL << 30)
bool copy_is_small(const char *folder);
long long bytes_beyond_copies(const char *folder);
bool copy_folder(const char *from, const char *to, const char *without); /* a folder in it, or NULL */
bool copy_file(const char *from, const char *to);
void remove_folder(const char *folder);

/* mirror.c: a copy of the working folder, in a new folder that is all that the program may write to. */
bool landlock_scope(
    struct cover *cover, bool signals, bool abstract_sockets); /* keep both inside, where no namespace does */
const char *mirror_new_folder(void);
bool mirror_make(const struct request *request, struct cover *cover);
bool mirror_confine(const struct request *request, const struct cover *cover, int *listener);
void mirror_answer(int listener, const struct cover *cover);
long long mirror_full(void); /* how many bytes the program might write, if it has written more, else 0 */

#endif
