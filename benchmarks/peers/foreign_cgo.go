//go:build cgo

package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include "cpp/peer.h"

typedef struct {
  const char *(*name)(int), *(*league)(int);
  void *(*open)(int, uint64_t, uint64_t);
  int64_t (*run)(void *, const peer_op *, uint64_t, uint64_t *, uint32_t *);
  void *(*beside)(void *, uint64_t);
  void (*count)(void *, peer_counters *);
  void (*close)(void *);
} peer_object;

static const char *object_load(const char *path, peer_object *o) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) return dlerror();
  *(void **)&o->name = dlsym(handle, "peer_name");
  *(void **)&o->league = dlsym(handle, "peer_league");
  *(void **)&o->open = dlsym(handle, "peer_open");
  *(void **)&o->run = dlsym(handle, "peer_run");
  *(void **)&o->beside = dlsym(handle, "peer_beside");
  *(void **)&o->count = dlsym(handle, "peer_count");
  *(void **)&o->close = dlsym(handle, "peer_close");
  if (!o->name || !o->league || !o->open || !o->run || !o->count || !o->close) return "a function of peer.h is missing";
  return NULL;
}

static const char *object_name(peer_object *o, int which) { return o->name(which); }
static const char *object_league(peer_object *o, int which) { return o->league(which); }
static void *object_open(peer_object *o, int which, uint64_t bytes, uint64_t blocks) {
	return o->open(which, bytes, blocks);
}
static int64_t object_run(peer_object *o, void *pool, const void *ops, uint64_t count, uint64_t *addrs,
		uint32_t *nanos) {
  return o->run(pool, ops, count, addrs, nanos);
}
static void *object_beside(peer_object *o, void *pool, uint64_t blocks) { return o->beside(pool, blocks); }
static int object_besides(peer_object *o) { return o->beside != NULL; }
static void object_count(peer_object *o, void *pool, peer_counters *counters) { o->count(pool, counters); }
static void object_close(peer_object *o, void *pool) { o->close(pool); }

static int64_t clock_readings(int64_t count) {
  struct timespec first, t;
  clock_gettime(CLOCK_MONOTONIC, &first);
  for (int64_t i = 0; i < count; ++i) clock_gettime(CLOCK_MONOTONIC, &t);
  return (t.tv_sec - first.tv_sec) * 1000000000LL + t.tv_nsec - first.tv_nsec;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"gpuconf/tests_go/pool/traces"
)

// load opens a shared object of contenders. It stays open.
func load(path string) ([]contender, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	object := new(C.peer_object)
	if failure := C.object_load(text, object); failure != nil {
		return nil, errors.New(C.GoString(failure))
	}
	var list []contender
	for which := C.int(0); ; which++ {
		name := C.object_name(object, which)
		if name == nil {
			return list, nil
		}
		open := func(poolBytes uint64, blocks int) (pool, error) {
			p := C.object_open(object, which, C.uint64_t(poolBytes), C.uint64_t(blocks))
			if p == nil {
				return nil, fmt.Errorf("no pool of %d bytes", poolBytes)
			}
			return &foreignPool{object, p}, nil
		}
		list = append(list, contender{C.GoString(name), league(C.GoString(C.object_league(object, which))), open,
			C.object_besides(object) != 0})
	}
}

type foreignPool struct {
	object *C.peer_object
	pool   unsafe.Pointer
}

// An operation has the same layout in Go and in C.
var _ = [1]struct{}{}[unsafe.Sizeof(traces.Op{})-C.sizeof_peer_op]

func (p *foreignPool) run(ops []traces.Op, addrs []uint64, nanos []uint32) (int64, error) {
	ns := int64(C.object_run(p.object, p.pool, unsafe.Pointer(unsafe.SliceData(ops)), C.uint64_t(len(ops)),
		(*C.uint64_t)(unsafe.SliceData(addrs)), (*C.uint32_t)(unsafe.SliceData(nanos))))
	if ns < 0 {
		i := int(-1 - ns)
		return 0, errNoMemory(i, ops[i])
	}
	return ns, nil
}

func (p *foreignPool) beside(blocks int) pool {
	return &foreignPool{p.object, C.object_beside(p.object, p.pool, C.uint64_t(blocks))}
}

func (p *foreignPool) count() counters {
	var b C.peer_counters
	C.object_count(p.object, p.pool, &b)
	return counters{uint64(b.current), uint64(b.peak), uint64(b.reserved), uint64(b.ours)}
}

func (p *foreignPool) close() { C.object_close(p.object, p.pool) }

// foreignClock is the time of reading the clock once in the others' loops.
func foreignClock() float64 { return float64(C.clock_readings(clockReadings)) / clockReadings }
