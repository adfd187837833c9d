// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package blas

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"unsafe"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// found is a library whose functions are known.
type found struct {
	functions C.struct_blas_functions
	wide      bool
}

// look searches for the library. mu is held.
func (l *Library) look() *search {
	if l.choice != Auto {
		one, about, complaint := load(l.choice, false)
		if complaint != "" {
			return &search{err: errChoice(l.choice, complaint)}
		}
		return &search{found: one, about: about}
	}
	s := &search{}
	for _, path := range loaded() {
		if s.try(path, true) {
			return s
		}
	}
	for _, path := range inWheels(l.folders) {
		if s.try(path, false) {
			return s
		}
	}
	for _, name := range systemNames {
		if s.try(name, false) {
			return s
		}
	}
	return s
}

// try loads a library, and uses it if it is one that gpuconf knows: see the package comment.
func (s *search) try(path string, onlyLoaded bool) bool {
	one, about, complaint := load(path, onlyLoaded)
	switch {
	case strings.HasPrefix(complaint, path+": cannot open shared object file: No such file"):
		return false
	case complaint != "":
		s.about.Complaints = append(s.about.Complaints, complaint)
		return false
	case one == nil:
		return false
	case about.Library == "":
		s.about.Complaints = append(s.about.Complaints,
			fmt.Sprintf("%s is not a library that gpuconf knows to be faster than gonum", about.Path))
		return false
	}
	s.found, s.about = one, about
	return true
}

func errChoice(choice, complaint string) error {
	return status.Errorf(status.InvalidArgument, "GPUCONF_BLAS is %q, which cannot be used: %s. Set it to the path of "+
		"a library with the functions of CBLAS, to auto, or to gonum", choice, complaint)
}

// load returns a library, or why it cannot be used. Both are empty if it is not loaded and must be.
func load(path string, onlyLoaded bool) (one *found, about About, complaint string) {
	if strings.ContainsRune(path, 0) {
		return nil, About{}, "its name contains a NUL character"
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	only := C.int(0)
	if onlyLoaded {
		only = 1
	}
	var answer C.struct_blas_load_answer
	C.blas_load(name, only, &answer)
	switch answer.state {
	case C.BLAS_NO_LIBRARY:
		return nil, About{}, C.GoString(&answer.text[0])
	case C.BLAS_INCOMPLETE:
		return nil, About{}, fmt.Sprintf("%s lacks the functions of CBLAS", path)
	}
	about = About{
		Library: C.GoString(&answer.kind[0]), Version: strings.TrimSpace(C.GoString(&answer.version[0])),
		Path: resolved(C.GoString(&answer.path[0])), Threads: int(answer.threads),
	}
	return &found{functions: answer.functions, wide: answer.wide != 0 ||
		strings.Contains(about.Version, "USE64BITINT")}, about, ""
}

// resolved returns a path without links, which tell what library.so.3 stands for.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// loaded returns the paths of the BLAS libraries that the process has loaded.
func loaded() []string {
	var paths [8192]C.char
	C.blas_loaded(&paths[0], C.int(len(paths)))
	return strings.FieldsFunc(C.GoString(&paths[0]), func(r rune) bool { return r == '\n' })
}

// takes reports whether a product's sizes fit the library's integers.
func (f *found) takes(g gpu.Gemm) bool {
	return f.wide || max(g.M, g.N, g.K) <= math.MaxInt32
}

func (f *found) multiply(g gpu.Gemm) {
	C.blas_multiply(&f.functions, &C.struct_blas_product{
		is_double: flag(g.DType == gpu.Float64), trans_a: flag(g.TransA), trans_b: flag(g.TransB),
		m: C.int64_t(g.M), n: C.int64_t(g.N), k: C.int64_t(g.K), a: C.uint64_t(g.A), b: C.uint64_t(g.B),
		c: C.uint64_t(g.C),
	})
}

func flag(value bool) C.int {
	if value {
		return 1
	}
	return 0
}
