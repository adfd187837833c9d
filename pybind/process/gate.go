package process

import (
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"gpuconf/gocore/status"
)

// mark sets the kind of an error apart from its text on the way to Python. It can't stand in a message: clean sees to it.
const mark = "\x1e"

var broken atomic.Pointer[string]

// Gate stands at the border, deferred first in every function that C or Python can call: it catches panics and gives
// an error the form that python/gpuconf/_core/native.py reads, "\x1eKIND\x1etext".
//
// A panic means that a promise of ours is broken. The books may be wrong, so Gate closes the border behind it: Broken
// is set, and the functions that ask Alive first refuse from then on.
func Gate(err *error) { Caught(recover(), err) }

// Caught is Gate for a deferred function that has called recover itself, and gives what that gave.
func Caught(r any, err *error) {
	if r != nil {
		text := fmt.Sprintf("internal error: %v", r)
		broken.CompareAndSwap(nil, &text)
		*err = marked(status.Internal, fmt.Sprintf("%s. Please report it with these lines:\n%s", text, debug.Stack()))
		return
	}
	if *err != nil {
		*err = marked(status.CodeOf(*err), shorten((*err).Error()))
	}
}

// Alive refuses work after a panic.
func Alive() error {
	if text := broken.Load(); text != nil {
		return status.Errorf(status.Internal, "gpuconf stopped after an %s. Restart the process", *text)
	}
	return nil
}

func marked(code status.Code, text string) error {
	return errors.New(mark + code.String() + mark + clean(text))
}

// clean makes text fit for a C string of UTF-8: no NUL, no mark, no broken sequence.
func clean(text string) string {
	return strings.NewReplacer("\x00", "\\0", mark, " ").Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

// longWord is what nobody reads to its end: a name of thousands of characters that a caller has passed, and that the error quotes.
var longWord = regexp.MustCompile(`\S{401,}`)

// shorten leaves out the middle of words that are too long.
func shorten(text string) string {
	return longWord.ReplaceAllStringFunc(text, func(word string) string {
		return fmt.Sprintf("%s... %d bytes ...%s", strings.ToValidUTF8(word[:200], ""), len(word)-300, strings.ToValidUTF8(word[len(word)-100:], ""))
	})
}

// Unmark gives the text of an error that Gate has marked, for callers to whom kinds mean nothing.
func Unmark(err error) string {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, mark); ok {
		_, text, _ = strings.Cut(rest, mark)
	}
	return text
}
