package trace

import (
	"strconv"
	"unicode/utf8"

	"gpuconf/gocore/pickle"
)

// What a snapshot says about the origin of a block: PyTorch writes frames, and gpuconf a library and a tag as well. It is
// additional information, so values of other kinds than expected count as missing.

// origin sets an event's holder and stack.
func (s *snapshot) origin(e *Event, entry pickle.Value) (err error) {
	if e.Action != Free { // PyTorch records the calls of a free, too
		if e.Stack, err = s.stack(s.tree.Get(entry, wordFrames)); err != nil {
			return err
		}
	}
	library, tag := s.textOf(s.tree.Get(entry, wordLibrary)), s.textOf(s.tree.Get(entry, wordTag))
	if library == "" && tag == "" {
		return nil
	}
	if err := s.budget.Take(len(library) + len(tag)); err != nil {
		return err
	}
	e.Holder = s.naming.holder(Holder{library, tag})
	return nil
}

func (s *snapshot) stack(list pickle.Value) (number uint32, err error) {
	frames := s.tree.Items(list)
	if len(frames) == 0 {
		return 0, nil
	}
	if number, ok := s.stacks[list]; ok {
		return number, nil
	}
	frames = frames[:min(len(frames), mostFrames)]
	stack := make(Stack, 0, len(frames))
	s.text = s.text[:0]
	for _, frame := range frames {
		if err := s.step(); err != nil {
			return 0, err
		}
		f := s.frame(frame)
		if f == (Frame{}) {
			continue
		}
		stack = append(stack, f)
		s.text = append(append(append(s.text, f.File...), 0), strconv.Itoa(f.Line)...)
		s.text = append(append(append(s.text, 0), f.Function...), 0)
	}
	if err := s.budget.Take(2*len(s.text) + frameBytes*len(stack)); err != nil {
		return 0, err
	}
	number = s.naming.stack(string(s.text), func() Stack { return stack })
	s.stacks[list] = number
	return number, nil
}

const (
	mostLine   = 1<<31 - 1
	frameBytes = 64
)

func (s *snapshot) frame(frame pickle.Value) Frame {
	line, ok := s.tree.Get(frame, wordLine).Uint()
	if !ok || line > mostLine {
		line = 0
	}
	return Frame{s.textOf(s.tree.Get(frame, wordFilename)), int(line), s.textOf(s.tree.Get(frame, wordName))}
}

// textOf returns a text of the file; "" if it is not valid UTF-8, or longer than mostText.
func (s *snapshot) textOf(v pickle.Value) string {
	start, length, ok := v.Span()
	if !ok || length > mostText || start+length > len(s.data) || !utf8.Valid(s.data[start:start+length]) {
		return ""
	}
	return string(s.data[start : start+length])
}

// mostText is the length of the longest text that is kept.
const mostText = 1 << 12
