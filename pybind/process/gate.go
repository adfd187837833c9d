// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// mark separates the kind of an error from its text on the way to Python. clean removes it from messages.
const mark = "\x1e"

var broken atomic.Pointer[string]

// Gate is deferred first in every function that C or Python can call. It catches panics and converts errors
// to the form that python/gpuconf/_core/native.py reads, "\x1eKIND\x1etext".
//
// A panic means that an invariant is broken and the accounting may be wrong. So Gate sets broken, and functions that
// call Alive first fail from then on.
func Gate(err *error) { Caught(recover(), err) }

// Caught is Gate for a deferred function that has called recover itself; r is the result of recover.
func Caught(r any, err *error) {
	if r != nil {
		text := fmt.Sprintf("internal error: %v", r)
		broken.CompareAndSwap(nil, &text)
		threads.Stopped()
		*err = marked(status.Internal, fmt.Sprintf("%s. Please report it with these lines:\n%s", text, debug.Stack()))
		return
	}
	if *err != nil { // what follows allocates memory, which an allocation without an error must not
		*err = forPython(*err)
	}
}

// panicked returns the error for a panic of a goroutine, whose caller cannot recover it.
func panicked(r any) (err error) {
	Caught(r, &err)
	return status.Errorf(status.Internal, "%s", Unmark(err))
}

func forPython(err error) error {
	var busy *Busy
	if errors.As(err, &busy) {
		return errors.New(mark + "BUSY" + mark + busy.Nap)
	}
	return marked(status.CodeOf(err), shorten(err.Error()))
}

// Busy is the error of a call that another process keeps from a ledger's lock. native.py raises it as Busy.
type Busy struct {
	Nap string // the nap to take before the next try, as JSON
}

func (b *Busy) Error() string { return "the ledger is locked: " + b.Nap }

// Alive returns an error after a panic.
func Alive() error {
	if text := broken.Load(); text != nil {
		return status.Errorf(status.Internal, "gpuconf stopped after an %s. Restart the process", *text)
	}
	return nil
}

func marked(code status.Code, text string) error {
	return errors.New(mark + code.String() + mark + clean(text))
}

// asOneText replaces what a C string, and a text with marks, cannot have.
var asOneText = strings.NewReplacer("\x00", "\\0", mark, " ")

// clean makes text a valid UTF-8 C string: no NUL, no mark, no invalid sequence.
func clean(text string) string { return asOneText.Replace(strings.ToValidUTF8(text, "\uFFFD")) }

// longest is the length in characters of a word that can still be read. A longer one is, for example, a name that a
// caller passed and the error quotes.
const longest = 400

// shorten removes the middle of words that are too long.
func shorten(text string) string {
	if len(text) <= longest {
		return text
	}
	var out strings.Builder
	for {
		end := strings.IndexAny(text, " \t\n\f\r")
		if end < 0 {
			out.WriteString(shortWord(text))
			return out.String()
		}
		out.WriteString(shortWord(text[:end]))
		out.WriteByte(text[end])
		text = text[end+1:]
	}
}

func shortWord(word string) string {
	if utf8.RuneCountInString(word) <= longest {
		return word
	}
	return fmt.Sprintf("%s... %d bytes ...%s", strings.ToValidUTF8(word[:200], ""), len(word)-300,
		strings.ToValidUTF8(word[len(word)-100:], ""))
}

// Unmark returns the text of an error that Gate has marked, for callers that do not use kinds.
func Unmark(err error) string {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, mark); ok {
		_, text, _ = strings.Cut(rest, mark)
	}
	return text
}

// offThread computes large products on a separate goroutine. gonum distributes a product block by block, and its caller
// sleeps and wakes for each block. A goroutine called from C is locked to its thread, so each of these would be a
// thread switch, which takes a third of the time of a 512 × 512 product.
type offThread struct{ gpu.Compute }

// dispatched is the size of a product, in elements, above which gonum may distribute it: four blocks of 64 × 64, the
// last ones partial.
const dispatched = 64 * 64

// Gemm calls the wrapped Compute, on a separate goroutine if the product is large.
func (o offThread) Gemm(g gpu.Gemm) error {
	if g.M*g.N <= dispatched {
		return o.Compute.Gemm(g)
	}
	done := make(chan error)
	go func() {
		var err error
		defer func() { done <- err }()
		defer Gate(&err) // a caller cannot recover a panic of this goroutine
		err = o.Compute.Gemm(g)
	}()
	return <-done
}

// Parallel calls do for each of the numbers from 0 to n-1, as many at a time as there are processors, and returns the
// first error. It stops when there is one. A panic of do counts as an internal error, as in Gate: it must not end
// Python's process.
func Parallel(ctx context.Context, n int, do func(ctx context.Context, number int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		workers.Go(func() {
			for number := int(next.Add(1)) - 1; number < n && ctx.Err() == nil; number = int(next.Add(1)) - 1 {
				if err := caught(ctx, number, do); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

func caught(ctx context.Context, number int, do func(context.Context, int) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
	}()
	return do(ctx, number)
}
