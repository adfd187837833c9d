/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgpuconf-always.so is loaded into every program of a simulation: by LD_PRELOAD, or by /etc/ld.so.preload in the
 * cover of a rehearsal. It starts gpuconf in each Python, whatever options and environment that has, and lets the
 * programs that a program starts inherit this.
 */
#ifndef GPUCONF_ALWAYS_H
#define GPUCONF_ALWAYS_H

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* What the cover's maker has put there, and only there. */
#define COVER_ENVIRONMENT "/run/gpuconf/environment" /* NAME=VALUE, a zero byte after each */
#define COVER_TRIED "/run/gpuconf/tried"             /* lines: paths at which no process of the cover answers */

#define MARK "GPUCONF_STARTUP" /* in the environment of each program of a simulation */

extern char gpuconf_package[]; /* the folder of the Python package; "" if this library does nothing here */
extern int gpuconf_covered;    /* whether this is a cover */

const char *gpuconf_value(char *const *environment, const char *name); /* NULL if it is not there */
int gpuconf_disabled(char *const *environment);
void gpuconf_keep_environment(const char *given, size_t length);
void gpuconf_note_tried(void);
void gpuconf_watch_python(void *library); /* that has the Python, if it is one */
int gpuconf_python_is_watched(void);

#endif
