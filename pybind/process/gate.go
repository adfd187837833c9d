// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"gpuconf/gocore/base/status"
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
	if *err != nil {
		*err = marked(status.CodeOf(*err), shorten((*err).Error()))
	}
}

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
