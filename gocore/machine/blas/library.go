// SPDX-License-Identifier: Apache-2.0

package blas

import (
	"runtime"
	"sync"
	"sync/atomic"

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

// About describes what computes large products.
type About struct {
	Library    string   // "OpenBLAS"; "" if there is none
	Version    string   // what the library says about itself
	Path       string   // its file
	Threads    int      // 0 if unknown
	Complaints []string // why libraries that exist cannot be used
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
	if g.DType == gpu.Int32 || l.choice == Gonum || g.Check() != nil || isSmall(g) {
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

// isSmall reports whether a product has fewer than the least multiplications. Its sizes have passed Check, so M × N
// does not overflow.
func isSmall(g gpu.Gemm) bool {
	return g.K == 0 || g.M*g.N < (least+g.K-1)/g.K
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
