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
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// The choices besides a path or a name for the loader.
const (
	Auto  = "auto"  // the default, also as ""
	Gonum = "gonum" // no library
)

// Library is the BLAS of a process, if it has one.
type Library struct {
	choice  string
	folders []string
	calls   chan struct{} // has room for the calls that may run at once

	mu     sync.Mutex
	search atomic.Pointer[search] // set once, with mu held
}

// search is the result of looking for a library.
type search struct {
	found *found // nil for none
	about About
	err   error // the library that the caller named cannot be used
}

// About is what computes large products in host memory.
type About struct {
	Library    string   `py:"library"`    // "OpenBLAS"; "" if there is none
	Version    string   `py:"version"`    // what the library says about itself
	Path       string   `py:"path"`       // its file
	Threads    int      `py:"threads"`    // 0 if unknown
	Complaints []string `py:"complaints"` // why libraries that exist cannot be used
}

// New returns a Library without loading anything. choice is Auto, Gonum, or a library's path or name; folders are the
// folders from which Python imports modules.
func New(choice string, folders []string) *Library {
	if choice == "" {
		choice = Auto
	}
	return &Library{choice: choice, folders: folders, calls: make(chan struct{}, runtime.NumCPU())}
}

// least is the number of multiplications from which a library is faster than gonum, call and all.
const least = 16 * 16 * 16

// Gemm multiplies two matrices, as gpu.Compute does, and reports whether it did. If not, the product is small, of
// integers, or there is no library. The error is InvalidArgument if the caller named a library that cannot be used.
func (l *Library) Gemm(g gpu.Gemm) (done bool, err error) {
	if g.DType == gpu.Int32 || l.choice == Gonum || g.Check() != nil {
		return false, nil
	}
	if g.K == 0 || g.M*g.N < (least+g.K-1)/g.K { // M × N does not overflow: Check has looked
		return false, nil
	}
	s := l.find()
	if s.err != nil || s.found == nil || !s.found.takes(g) {
		return false, s.err
	}
	l.calls <- struct{}{}
	defer func() { <-l.calls }()
	s.found.multiply(g)
	return true, nil
}

// Describe looks for the library, and describes it.
func (l *Library) Describe() (About, error) {
	if l.choice == Gonum {
		return About{}, nil
	}
	s := l.find()
	return s.about, s.err
}

func (l *Library) find() *search {
	if s := l.search.Load(); s != nil {
		return s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.search.Load(); s != nil {
		return s
	}
	s := l.look()
	l.search.Store(s)
	return s
}

// systemNames are the names for the loader. The last two are links to the library that the administrator chose.
var systemNames = []string{"libopenblas64.so.0", "libopenblas.so.0", "libblis.so.4", "libcblas.so.3", "libblas.so.3"}

// wheelFiles are patterns of the files that wheels install, from a folder of modules.
var wheelFiles = []string{
	"numpy.libs/libscipy_openblas*.so*",
	"numpy.libs/libopenblas*.so*",
	"scipy_openblas64/lib/libscipy_openblas64_.so",
	"scipy_openblas32/lib/libscipy_openblas.so",
	inEnvironment + mklFile + "*", // MKL's wheel, and Conda's package
}

const (
	inEnvironment = "../../" // lib of the environment, from its folder of modules
	mklFile       = "libmkl_rt.so."
	mklThreads    = "libiomp5.so"
)

// isWhole reports whether a library's parts are there. MKL ends the process if it does not find its threads.
func isWhole(path string) bool {
	if !strings.HasPrefix(filepath.Base(path), mklFile) {
		return true
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(path), mklThreads))
	return err == nil
}

// inWheels returns the files of wheels in the folders, in the order of the patterns.
func inWheels(folders []string) (files []string) {
	for _, pattern := range wheelFiles {
		for _, folder := range folders {
			found, err := filepath.Glob(filepath.Join(escaped(folder), pattern))
			if err != nil {
				continue
			}
			slices.Reverse(found) // the highest version first
			for _, path := range found {
				if isWhole(path) {
					files = append(files, path)
				}
			}
		}
	}
	return files
}

// escaped returns a folder as a pattern that matches only itself.
func escaped(folder string) string {
	var pattern []rune
	for _, r := range folder {
		if r == '*' || r == '?' || r == '[' || r == '\\' {
			pattern = append(pattern, '\\')
		}
		pattern = append(pattern, r)
	}
	return string(pattern)
}

// found is a library whose functions are known.
type found struct {
	functions C.struct_blas_functions
	wide      bool
}

// look searches for the library. mu is held.
func (l *Library) look() *search {
	if l.choice != Auto {
		library, about, complaint := load(l.choice, false)
		if complaint != "" {
			return &search{err: status.Errorf(status.InvalidArgument, "GPUCONF_BLAS is %q, which cannot be used: %s. "+
				"Set it to the path of a library with the functions of CBLAS, to auto, or to gonum", l.choice,
				complaint)}
		}
		return &search{found: library, about: about}
	}
	s := &search{}
	for _, path := range loaded() {
		if s.try(path, true) {
			return s
		}
	}
	for _, path := range slices.Concat(inWheels(l.folders), systemNames) {
		if s.try(path, false) {
			return s
		}
	}
	return s
}

// try loads a library, and uses it if it is one that gpuconf knows: see the package comment.
func (s *search) try(path string, onlyLoaded bool) bool {
	library, about, complaint := load(path, onlyLoaded)
	switch {
	case strings.HasPrefix(complaint, path+": cannot open shared object file: No such file"):
		return false
	case complaint != "":
		s.about.Complaints = append(s.about.Complaints, complaint)
		return false
	case library == nil:
		return false
	case about.Library == "":
		s.about.Complaints = append(s.about.Complaints,
			fmt.Sprintf("%s is not a library that gpuconf knows to be faster than gonum", about.Path))
		return false
	}
	s.found, s.about = library, about
	return true
}

// load returns a library, or why it cannot be used. Both are empty if it is not loaded and must be.
func load(path string, onlyLoaded bool) (library *found, about About, complaint string) {
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
		Path: C.GoString(&answer.path[0]), Threads: int(answer.threads),
	}
	if real, err := filepath.EvalSymlinks(about.Path); err == nil {
		about.Path = real // it says what library.so.3 stands for
	}
	return &found{functions: answer.functions, wide: answer.wide != 0 ||
		strings.Contains(about.Version, "USE64BITINT")}, about, ""
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
