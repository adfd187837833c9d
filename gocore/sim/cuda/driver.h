/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated CUDA driver: libcuda.so.1 over host memory, for programs without a GPU and for tests of code that loads
 * the real one. It follows CUDA's rules as far as they are known, and is stricter where CUDA leaves a mistake
 * undefined. Its types are declared here a second time on purpose: sharing a header with the code under test would hide
 * a wrong layout.
 *
 * The environment, read by cuInit:
 *
 *     GPUCONF_SIMULATE     the machine, such as 2xT4:8GiB (device.c)
 *     CUDA_VISIBLE_DEVICES as for the real driver: indices, UUIDs, prefixes of UUIDs
 *
 * A build with GPUCONF_TEST_HOOKS (tests_go/machine/fakecuda/libcuda) reads these, too, without GPUCONF_SIMULATE:
 *
 *     FAKECUDA_GPUS        number of GPUs (1)
 *     FAKECUDA_MEMORY      bytes of each (1 GiB)
 *     FAKECUDA_WITHOUT     a list of "vmm", "memops", "priorities", "managed", "concurrent": features that no GPU
 *                          supports
 *     FAKECUDA_LENIENT     not empty: a free waits for the work of its context, copies in a stream accept host memory
 *                          that is not page-locked, and reserved addresses are multiples of 2 MiB, as with NVIDIA's
 *                          driver; otherwise a program that counts on them depends on time, or is refused
 *     FAKECUDA_FAIL        "name:nth:result,...": as fakecuda_fail
 *     FAKECUDA_HOST_MARGIN bytes of host memory that must be left (256 MiB)
 *     FAKECUDA_SEGMENT     bytes by which a memory pool grows (32 MiB)
 *     FAKECUDA_OVERFULL    set: it says that more is free than the card has, as under WSL2 when the card is full
 *     FAKECUDA_FORKS       set: a child that is forked after cuInit may go on using the driver, which NVIDIA's may not
 *     FAKECUDA_CHECKPOINT  what goes wrong when the process is suspended (checkpoint.c), words with commas between:
 *                          hang-OP, crash-OP (OP: state, thread, lock, checkpoint, restore, unlock); not-ready;
 *                          ruin: nothing repairs a restore that had no room; out-of-step: after a caller was killed,
 *                          each call fails; fixed=MS, out=N, in=N: what it takes, N in MiB a second
 *     FAKECUDA_ALIASES     set: cuGetProcAddress returns other addresses than dlsym
 *
 * The CUDA version that it reports is GPUCONF_SIMULATE's (driver=), else 12040, or what the build says
 * (FAKECUDA_DEFAULT_VERSION). cuGetProcAddress does not find what is newer, and such a function returns
 * CUDA_ERROR_NOT_SUPPORTED.
 *
 * Each GPU's device memory is one range of host addresses, and its physical memory for virtual memory management is a
 * memfd. Managed memory is a separate mapping, which counts as on the GPU as far as other memory leaves room, and
 * beyond that as on the host. Each stream has a thread that does its work. One lock guards everything; work runs under
 * it.
 */
#ifndef DRIVER_H
#define DRIVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../lease/budget/budget.h"
#include "results.h"

#ifndef FAKECUDA_DEFAULT_VERSION
#define FAKECUDA_DEFAULT_VERSION 12040
#endif

#define EXPORT __attribute__((visibility("default")))
#define MAX_GPUS 64
#define MAX_TOUCHED 4 /* by a kernel */
#define MIB (UINT64_C(1) << 20)
#define GRANULE (2 * MIB)
#define BLOCK (32 * MIB) /* of addresses; blocks.c */
#define LIMITS 9         /* of a context */
#define NO_LIMIT \
	(UINT64_C(1) << 40) /* what can be allocated beyond a card without a limit: address space is reserved for it */

/* tests_go/machine/fakecuda/libcuda/hooks.c, for tests. TEST_VARIABLE is the value of FAKECUDA_ and a literal; the
 * wheel's library reads none. */
#ifdef GPUCONF_TEST_HOOKS
#define TEST_VARIABLE(name) secure_getenv("FAKECUDA_" name)
CUresult hooks_of_call(const char *name); /* counts it, and returns its injected failure, if any */
void lock_hooks(void);                    /* for a fork */
void unlock_hooks(void);
long checkpoint_mode(const char *word); /* FAKECUDA_CHECKPOINT's number of a word, 1 without one; 0: it is not there */
void *hooks_entry(void *function);      /* what the resolver returns for it */
struct gpu;
int hooks_machine(void); /* reads a machine from the environment, and returns how many GPUs it has */
void hooks_gpu(struct gpu *gpu);
#else
#define TEST_VARIABLE(name) ((const char *)NULL)
static inline CUresult hooks_of_call(const char *name) {
	(void)name;
	return SUCCESS;
}
static inline void lock_hooks(void) {}
static inline void unlock_hooks(void) {}
static inline long checkpoint_mode(const char *word) {
	(void)word;
	return 0;
}
static inline void *hooks_entry(void *function) { return function; }
static inline int hooks_machine(void) { return 0; } /* without GPUCONF_SIMULATE there is no GPU */
#define hooks_gpu(gpu) ((void)(gpu))
#endif

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct graph *CUgraph;
typedef struct graph *CUgraphExec;
typedef struct object *CUuserObject;
typedef unsigned long long CUhandle;

/* CUmemLocation. */
struct location {
	int type, id;
};

/* CUmemPoolProps. */
struct pool_props {
	int type, handle_types;
	struct location location;
	void *security;
	size_t most;
	unsigned char reserved[56];
};

/* An element of a list of live objects. */
struct range {
	uint64_t addr, bytes;
};

/* What pointers.c notes of an allocation. */
struct notes {
	uint64_t buffer; /* its number, once it was requested */
	int sync_memops; /* 1: set, -1: taken back; 0: as it is for memory of this kind */
};

struct allocation {
	struct range range;
	struct context *context; /* ended together with it */
	struct allocation *next;
	unsigned flags; /* of page-locked memory */
	struct notes notes;
	struct export *export; /* ipc.c */
	int gone;              /* it was freed, but another process still has it */
	uint64_t charged;      /* to the card, for itself and for what shares its pages */
	struct block *block;   /* of addresses; NULL: its machine has none */
};

/* Memory around an address. */
struct place {
	struct range range;
	struct context *context;                                 /* NULL: none owns it */
	int gpu;                                                 /* -1: the host */
	int managed, linear, mapped, handle_types, rdma, access; /* access: of the thread's GPU, to what is mapped */
	struct range mapping;                                    /* what its page table has of it: 0 bytes for its range */
	struct pool *pool;
	struct notes *notes;
};

struct gpu {
	int physical;              /* its index before CUDA_VISIBLE_DEVICES */
	uint64_t total, used;      /* by this machine; sharedcard.c */
	uint64_t others;           /* of used: what the spec says that other programs have */
	int place;                 /* in the file of shared cards */
	uint64_t managed;          /* if managed memory must fit on the GPU, this is included in used */
	uint64_t arena, committed; /* below committed it is readable and writable */
	int major, minor, vmm, memops, greatest_priority, managed_memory, concurrent;
	const struct gpuconf_model *model;
	const struct gpuconf_capability *limits;
	unsigned profile; /* of enum gpuconf_profile */
	int multiprocessors, l2_bytes, integrated, host_page_tables;
	int bus;
	uint64_t context_bytes; /* what each context takes: 0, or as the profile says */
	uint64_t spill;         /* how much more than total can be allocated: WSL, and cards without a limit */
	int memory_file;
	uint64_t file_end;
	struct context *primary;
	int retains;
	unsigned primary_flags;
};

struct context {
	struct machine *machine;
	int gpu;
	int alive;
	uint64_t peers;  /* GPUs to whose context it has enabled access, as bits */
	CUresult sticky; /* the error of failed work, which every later call returns */
	struct stream *legacy;
	struct context *next;
	int primary; /* of its GPU: it lives again when it is retained anew */
	unsigned flags;
	int cache_config;
	size_t limits[LIMITS]; /* context.c */
};

struct pool {
	int gpu; /* -1: the host's */
	int gone, managed, imported;
	int file; /* of one that may be exported, or that is imported; 0: none */
	uint64_t file_end;
	uint64_t share;                           /* its number, once it was exported or imported */
	uint64_t reserved, used, threshold, most; /* most: 0 is no limit */
	uint64_t most_reserved, most_used;        /* since they were reset */
	unsigned no_reuse;                        /* attributes that were switched off, as bits */
	uint64_t granted;                         /* other GPUs that may access it, as bits */
	struct outside *first;                    /* its memory, in the order of the places */
	struct pool *next;
};

/*
 * One simulated machine. A process has one, which cuInit starts; tests open several (machine.c). The lock guards all
 * but era, which never changes.
 */
struct machine {
	pthread_mutex_t lock;
	pthread_cond_t progress;
	int era;                /* differs between the machines of a process, and between the starts of one */
	int started, no_device; /* cuInit has found devices; has found none */
	int forked;             /* in a child, after one of these in its parent */
	int only_listed; /* gpuconf has asked which cards there are, and nothing else has started the driver: a child may */
	int version;     /* of CUDA, as 12040; 0 until it is requested */
	int gpus;        /* visible ones */
	struct gpu gpu[MAX_GPUS];
	int vmm; /* some GPU has it */
	int lenient;
	int to_the_byte;   /* what memory is charged; simulator.h */
	int overfull;      /* it says that more is free than the card has */
	uint64_t segment;  /* of pools; 0: the usual size */
	unsigned delay_us; /* delays each copy and fill in a stream */
	uint64_t arenas[MAX_GPUS],
	    arena_bytes[MAX_GPUS]; /* kept across restarts: a stale pointer reads garbage but never faults */
	int arena_files[MAX_GPUS]; /* of machines with shared cards, whose memory others can map; 0: none */
	struct import *imports;

	struct context *contexts;
	struct allocation *allocations, *hosts, *registered, *managed_memory;  /* allocations: in address order */
	struct block *newest, *highest[MAX_GPUS], *room_for_kernels[MAX_GPUS]; /* blocks.c */
	int has_blocks; /* else linear memory lies in the lowest hole of the arena */
	uint64_t last_buffer;
	struct module *modules;
	struct array *arrays;
	struct outside *outside;
	struct pool *pools, standard[MAX_GPUS], *current[MAX_GPUS], standard_host, standard_managed, *current_host,
	    *current_managed;
	struct {
		uint64_t reserved, used, most;
	} graph_reserve[MAX_GPUS];
	struct live *graph_lives; /* allocated by a graph that has run, and not freed */

	struct stream *streams, *retired_streams, *found; /* found: the stream that was looked for last */
	int left_work;                                    /* some stream may have work and no worker */
	int stepped;                                      /* work runs when a test says so, in no thread of its own */
	struct event *events, *destroyed_events;
	uint64_t last_stream;
	struct capture *captures;
	struct graph *graphs;
	uint64_t last_capture;

	struct external *externals;
	struct memory *memories;
	struct handle *handles, *tiled;
	struct multicast *multicasts;
	struct mapping *mappings; /* in address order */
	struct reservation *reservations;
	struct held *ranges;
	uint64_t next_place;
	int has_exports; /* whether there ever was a descriptor */

	int suspended; /* calls wait */
	struct {
		enum { IS_RUNNING, IS_LOCKED, IS_CHECKPOINTED } state; /* as CUprocessState */
		int ruined;                                            /* a restore has failed, and none will succeed */
		int in_hand;                                           /* something is being done about it */
		uint64_t bytes[MAX_GPUS];                              /* that are to be restored */
	} checkpoint;

	struct held_share *held_shares;
	struct budget *shared;              /* the file that it shares its cards in; NULL: it has them alone */
	char *shared_path;                  /* the option */
	int opened;                         /* by the private entry; 0: the process's own machine */
	int kept;                           /* gpuconf_simulator_keep */
	char trouble[4600];                 /* why it could not be opened */
	const struct simulator_card *cards; /* NULL: FAKECUDA_GPUS says; a GPU's is at its physical place */
	int card_count;
	int cards_of_environment; /* they are GPUCONF_SIMULATE's, and read again after a restart */
	struct machine *next;
};

/* What can still be allocated. */
static inline uint64_t left(const struct gpu *gpu) { return gpu->total + gpu->spill - gpu->used; }

/* machine.c. The machine of the calling thread, which CALLED sets: the one that it is bound to, else the process's. */
struct simulator_card;
extern __thread struct machine *m __attribute__((tls_model("initial-exec")));
static inline int unknown_device(CUdevice device) { return device < 0 || device >= m->gpus; }
/* TRY ends a function with what a call returns, if that is a refusal. NEED refuses what has not all of its pointers,
 * KNOWN an unknown device, and NEEDS a call without a place for its answer, or about an unknown device. */
#define TRY(call) \
	do { \
		CUresult refused_ = (call); \
		if (refused_ != SUCCESS) \
			return refused_; \
	} while (0)
#define NEED(pointers) TRY((pointers) ? SUCCESS : INVALID_VALUE)
#define KNOWN(device) TRY(unknown_device(device) ? INVALID_DEVICE : SUCCESS)
#define NEEDS(out, device) \
	NEED(out); \
	KNOWN(device)
void enter_machine(void);
void drop_memory(struct machine *machine);
/* enter_machine for a question that may come at any time: no machine is closed until they are let go. It must not hold
 * a machine's lock. */
void hold_machines(void);
void let_machines_go(void);
int new_era(void);
int driver_version(void); /* of the machine of the calling thread */

/* machine.c. CALLED begins every function of the driver: it enters the machine, and looks whether it has started. It
 * must not hold the lock. */
CUresult called(const char *name, int needs_start);
#define CALLED(name) TRY(called(#name, 1))
/* CALLED for a function that came with a CUDA version: in an older driver it does nothing (exports.c). */
#define CALLED_SINCE(version, name) \
	do { \
		CALLED(name); \
		if (driver_version() < (version)) \
			return not_done(#name); \
	} while (0)
CUresult not_done(const char *name);
/*
 * What NVIDIA's driver refuses although, or before it looks whether, cuInit was not called or has found no device. It
 * stands before CALLED. The recorded answers are in tests_py/driver.
 */
enum when {
	NOT_CALLED = 1,
	NO_DEVICE_FOUND = 2,
	STARTED = 4,
	NOT_STARTED = NOT_CALLED | NO_DEVICE_FOUND,
	ANY_TIME = NOT_STARTED | STARTED
};
enum when time_of_call(void);
#define REFUSE(when, condition, refusal) \
	do { \
		if ((condition) && (time_of_call() & (when))) \
			return (refusal); \
	} while (0)
/* CALLED for a function with a stream: without a device, no handle of one is right. */
#define CALLED_IN(stream, name) \
	REFUSE(NO_DEVICE_FOUND, (uintptr_t)(stream) > 2, INVALID_HANDLE); \
	CALLED(name)
#define CALLED_IN_SINCE(version, stream, name) \
	REFUSE(NO_DEVICE_FOUND, (uintptr_t)(stream) > 2, INVALID_HANDLE); \
	CALLED_SINCE(version, name)
/* While the process is suspended, only who works for the machine gets its lock: the rest waits (checkpoint.c). */
extern __thread int works_for_machine __attribute__((tls_model("initial-exec")));
static inline void wait_while_suspended(void) {
	while (m->suspended && !works_for_machine)
		pthread_cond_wait(&m->progress, &m->lock);
}
static inline void lock_machine(void) {
	pthread_mutex_lock(&m->lock);
	wait_while_suspended();
}
#define LOCK lock_machine()
#define UNLOCK pthread_mutex_unlock(&m->lock)
/* For what a suspended process still answers, and for work that it has to finish. */
#define LOCK_ANYWAY pthread_mutex_lock(&m->lock)

/* LOCKED holds the machine's lock until the end of the block that it stands in, however that is left. */
#define LOCKED_ANYWAY HOLD(m->lock)
#define LOCKED \
	LOCKED_ANYWAY; \
	wait_while_suspended()

static inline void *small_memory(size_t bytes) {
	void *made = calloc(1, bytes);
	if (made == NULL)
		abort();
	return made;
}

/*
 * Lists have their elements' `next`. ADD puts a new element in front, and is it. FIND moves a link, a pointer to a
 * pointer to an element, to the first element of which the condition about *link holds, or to the end. TAKE_OUT takes
 * the element of a link out, and is it. DROP_EACH calls drop with the link of each such element, which takes it out.
 * Elements are small: without host memory for one the process ends.
 */
#define ADD(list, ...) \
	({ \
		__typeof__(list) new_ = small_memory(sizeof *new_); \
		*new_ = (__typeof__(*new_)){__VA_ARGS__, .next = (list)}; \
		(list) = new_; \
	})
#define FIND(link, condition) \
	while (*(link) != NULL && !(condition)) \
	(link) = &(*(link))->next
#define TAKE_OUT(link) \
	({ \
		__typeof__(*(link)) gone_ = *(link); \
		*(link) = gone_->next; \
		gone_; \
	})
#define DROP_EACH(list, condition, drop) \
	for (__typeof__(&(list)) link = &(list); *link != NULL;) \
		if (condition) \
			drop(link); \
		else \
			link = &(*link)->next

CUresult usable_context(struct context **out); /* current_context, under the lock for a moment */

/* The functions below are called with the lock held. */

/* context.c */
CUresult current_context(struct context **out);
/* IN_CONTEXT is LOCKED, with the thread's current context. Without a usable one the function returns why. */
#define IN_CONTEXT \
	struct context *context; \
	LOCKED; \
	TRY(current_context(&context))
void end_context(struct context *context);

/* device.c */
CUresult start(void);
void card_uuid(int gpu, unsigned char uuid[16]);

/* device.c: the cards of GPUCONF_SIMULATE, 0 without it, -1 if it is wrong; and its CUDA version, 0 if it has
 * none. */
int cards_of_environment(struct simulator_card **out);

/* What programs see of a card. */
struct gpuconf_view view_of(const struct simulator_card *card);
int version_of_environment(void);

/* machine.c: drops all that programs have made; frees the elements of a list whose next is at an offset. */
void end_machine(void);
void free_list(void *first, size_t next);

/* blocks.c: addresses from the host, 0 if it refuses; a range that is returned stays mapped, but its pages are dropped.
 */
uint64_t take_range(uint64_t bytes, uint64_t alignment, int access);
void give_range(uint64_t addr);
void drop_ranges(void);
uint64_t map_in_order(uint64_t bytes, uint64_t alignment, int access);
uint64_t map_from(uint64_t addr, uint64_t last, uint64_t bytes, uint64_t alignment, int access);
uint64_t map_anywhere(uint64_t bytes, uint64_t alignment, int access);
#define LARGEST_PAGE (UINT64_C(1) << 16) /* of a host */

/* blocks.c: where linear memory lies. What has a place enters its block, and leaves it when it is freed. */
struct block;
void choose_blocks(void);                                        /* sets has_blocks */
uint64_t take_place(int gpu, uint64_t bytes, struct block **of); /* 0: there is none */
int commit_block(const struct gpu *gpu, struct block *block);
void enter_block(struct block *block, uint64_t bytes);
void leave_block(struct block *block, uint64_t bytes);
void drop_blocks(void); /* of all that has been freed */

/* memory.c */
void end_memory(struct context *context);
void end_gone(void);
int commit(const struct gpu *gpu, uint64_t begin, uint64_t end); /* makes a part of its arena readable and writable */
int within(uint64_t addr, uint64_t bytes, int gpu); /* device memory that the GPU may access, or page-locked memory */
int within_host(uint64_t addr, uint64_t bytes);
int inside(uint64_t addr, uint64_t bytes, struct range range);
uint64_t take_charge(
    struct allocation *one); /* of the pages that it shares, before it is exported; returns what it has */
uint64_t charge(uint64_t bytes);
uint64_t to_pages(uint64_t bytes);
void gpuconf_simulator_clear(uint64_t addr, uint64_t bytes);
uint64_t pages(uint64_t bytes); /* what linear memory takes */

/* outside.c, pools.c */
#if defined(__x86_64__)
#define MAP_32BIT_ON_X86 MAP_32BIT
#else
#define MAP_32BIT_ON_X86 0
#endif
enum outside_kind { POOL_MEMORY, LOW_MEMORY, GRAPH_MEMORY, EXTERNAL_MEMORY };
int within_outside(uint64_t addr, uint64_t bytes, int gpu);
int find_outside(uint64_t addr, struct place *out);
uint64_t add_graph_memory(uint64_t bytes, int gpu);
CUresult free_outside(uint64_t addr);
void end_outside(struct context *context);
void pools_synchronized(void);
uint64_t segment(void); /* what pools, and the reserve for graphs, grow by */
void end_pools(void);
CUresult free_linear(uint64_t addr); /* memory.c; takes the lock */

/* graphmemory.c */
CUresult captured_allocation(CUdeviceptr *out, size_t bytes, CUstream handle);
CUresult captured_free(CUdeviceptr addr, CUstream handle);
CUresult graph_memory_freed(uint64_t addr);
void end_graph_memory(void);

/* pointers.c */
int find_place(uint64_t addr, struct place *out);

/* peers.c */
int can_access(CUdevice device, CUdevice memory); /* may a GPU access another one's memory? */
int is_context(const struct context *context);
void end_peers(struct context *context);

/* hostmemory.c */
void end_registered(struct context *context);

/* ipc.c: an event that processes share. A reference each for the event and for work that is about it. */
struct shared_event;
struct shared_event *make_shared_event(void);                  /* NULL: it cannot be made */
uint64_t begin_shared(struct shared_event *shared);            /* a record, whose number it returns */
void end_shared(struct shared_event *shared, uint64_t number); /* its work is done */
uint64_t last_shared(const struct shared_event *shared);       /* the number of the last record */
int shared_done(struct shared_event *shared, uint64_t number);
struct shared_event *hold_shared(struct shared_event *shared);
void drop_shared(struct shared_event *shared);
void forget_shared(struct shared_event *shared); /* its maker has destroyed it: no process can open it any more */

/* ipc.c */
int end_export(struct allocation *one);
int export_lives(const struct allocation *one);
void end_imports(struct context *context);
int within_imports(uint64_t addr, uint64_t bytes);
int find_import(uint64_t addr, struct place *out);
int count_imports(void);

/* modules.c */
void end_modules(void);
void free_modules(void);

/* arrays.c */
size_t element_bytes(int format); /* of a plain one, a CUarray_format; 0 for another one */
int count_arrays(void);
void end_arrays(struct context *context);

/*
 * sharedcard.c: how much memory of a card is in use, by this machine and by the other processes that share the card.
 * use_card returns 0, and changes nothing, where the bytes do not fit.
 */
int use_card(struct gpu *gpu, uint64_t bytes);
void leave_card(struct gpu *gpu, uint64_t bytes);
void mark_managed(const struct gpu *gpu, int64_t bytes);
void count_context(const struct gpu *gpu, int difference);
CUresult share_cards(void);
int has_shared_cards(void); /* whether it will: before they are opened */
void end_sharing(void);
void forget_sharing(struct machine *machine); /* in a child */
int share_export(
    const struct gpu *gpu, uint64_t number, uint64_t bytes); /* what other processes may import is charged once */
int join_export(uint64_t number);                            /* as often as it is left */
void leave_export(uint64_t number);
void grow_export(struct gpu *gpu, uint64_t number, uint64_t bytes); /* by what this process has taken */
void shrink_export(struct gpu *gpu, uint64_t number, uint64_t bytes);
uint64_t number_of_export(int file, uint64_t offset); /* vmm.c: the same in every process */
uint64_t free_bytes(const struct gpu *gpu);
/* managed.c */
void drop_managed(struct allocation **at);

/* hostmemory.c: called where memory is handed out, with the lock held or not */
void watch_host_memory(void);

/* vmm.c */
#define MEMORY_FILE "gpuconf-simulated-gpu" /* the name of a GPU's physical memory */
int within_mappings(uint64_t addr, uint64_t bytes, int gpu);
int find_mapping(uint64_t addr, struct place *out);
void count_virtual(int *handles, int *mappings, int *reservations);
void end_virtual(void);
void exports_closed(void);
int exports_live(void); /* whether other processes may have memory of this one, or it has theirs */
struct handle *hold_part(CUhandle number, uint64_t offset, uint64_t bytes, int *gpu);
struct handle *hold_mapped(uint64_t addr, uint64_t bytes, int *gpu);
void release_part(struct handle *handle);
struct handle *import_part(
    int descriptor, uint64_t *bytes); /* what a descriptor exports; for external.c, which releases it */
int file_of_part(struct handle *handle, uint64_t *offset, int *gpu);

/* external.c */
void end_externals(void);

/* multicast.c */
int end_multicast(CUhandle number); /* 0 if there is no such object */
void end_multicasts(void);

/* stream.c */
enum work_kind { MARK, COPY, FILL, WRITE_WORD, WAIT_WORD, KERNEL, GRAPH, SIGNAL, AWAIT };
struct work {
	enum work_kind kind;
	uint64_t dst, src, bytes, value;
	void *staged;           /* a copy of the source, if it was staged; freed with the work */
	int to_pageable;        /* dst is any host memory; the caller waits */
	void (*kernel)(void *); /* of staged */
	struct range touched[MAX_TOUCHED];
	int touched_by[MAX_TOUCHED]; /* 1 + a GPU; 0: the stream's */
	struct body *body;
	struct shared_event *shared; /* of SIGNAL and AWAIT, and its record in value */
};
int start_thread(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
    void *argument); /* pthread_create, without signals */
CUstream own_stream(CUstream handle);
uint64_t enqueue(struct stream *stream, struct work work);
void wait_idle(struct context *context);
void count_as_queued(int difference);
int streams_idle(void); /* whether no stream has work. Where no thread does it, this does */
void wait_done(struct stream *stream, uint64_t seq);
struct stream *make_stream(struct context *context, int blocking, int priority);
void end_streams(struct context *context);

/* checkpoint.c */
void begin_control(void);  /* from now on other processes can suspend this one */
void forget_control(void); /* in a child */
void forget_checkpoint(struct machine *machine);

/* capture.c */
CUresult legacy_admitted(struct context *context); /* may the legacy stream be used? */
CUresult uncaptured(void);                         /* may the thread take memory in a stream that is not captured? */
CUresult forbidden(const char *name);              /* does a capture forbid this thread a call of that name? */
void end_captures(void);

/* Memory outside of the arenas (outside.c), and the pools that have most of it. */
#define POOL_FILE "gpuconf-simulated-pool"

struct outside {
	struct range range, pages; /* pages: what is mapped of a file */
	uint64_t offset;           /* of range in the file */
	int gpu;
	enum outside_kind kind;
	struct pool *pool;
	uint64_t at;                /* in what the pool has reserved */
	struct outside *next_there; /* of the pool, in that order */
	struct context *context;
	struct handle *part; /* of external memory */
	struct outside *next;
	struct notes notes;
};

struct outside *add_outside(uint64_t bytes, int gpu, enum outside_kind kind, int flags);
struct outside *add_mapped(int file, uint64_t offset, uint64_t bytes, int gpu, enum outside_kind kind);
void drop_outside(struct outside **link);
/* Whether a descriptor, which may be anything that the program says, is of a memfd of this name. */
int is_memory_file(int descriptor, const char *name);
int is_memory_link(const char *path, const char *name);
/* A part of a file in the place of anonymous pages: the whole pages, and the part's own range in them. 0: no room. */
int map_file(int file, uint64_t offset, uint64_t bytes, struct range *pages, struct range *range);
void unmap_file(struct range pages); /* the addresses stay mapped, to anonymous pages */

/* pools.c */
void leave_pool(struct outside *gone);
void pool_freed(struct pool *pool);

#endif
