// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"unicode/utf8"

	"gpuconf/gocore/base/pickle"
)

// What a snapshot says about the origin of a block: PyTorch writes frames, and gpuconf a library and a tag as well. It
// is additional information, so values of other kinds than expected count as missing.

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
	if s.walked += len(frames); s.walked%stepsBetween < len(frames) && s.ctx.Err() != nil {
		return 0, s.ctx.Err()
	}
	s.key = s.key[:0]
	for _, frame := range frames {
		place, err := s.frame(frame)
		if err != nil {
			return 0, err
		}
		if s.frames[place] != (Frame{}) {
			s.key = binary.LittleEndian.AppendUint32(s.key, place)
		}
	}
	// PyTorch stores a list for each event, but frames and stacks are few. So only a new stack is charged. The items of
	// the lists themselves, and with them this walk, the tree has charged: each list is read once.
	number, known := s.naming.stacks[string(s.key)]
	if !known {
		if err := s.budget.Take((1 + frameBytes/4) * len(s.key)); err != nil {
			return 0, err
		}
		number = s.naming.stack(string(s.key), func() (stack Stack) {
			for key := s.key; len(key) > 0; key = key[4:] {
				stack = append(stack, s.frames[binary.LittleEndian.Uint32(key)])
			}
			return stack
		})
	}
	s.stacks[list] = number
	return number, s.budget.Take(stackEntryBytes)
}

// stackEntryBytes is what a list of frames takes in snapshot.stacks.
const stackEntryBytes = 48

const (
	mostLine   = 1<<31 - 1
	frameBytes = 64
)

// frame returns the place in s.frames of a frame, which many stacks may share: with the frames of C++, a file is a
// fraction of the text of all its stacks.
func (s *snapshot) frame(frame pickle.Value) (place uint32, err error) {
	if place, ok := s.frameAt[frame]; ok {
		return place, nil
	}
	if err := s.budget.Take(frameBytes); err != nil {
		return 0, err
	}
	line, ok := s.tree.Get(frame, wordLine).Uint()
	if !ok || line > mostLine {
		line = 0
	}
	f := Frame{s.textOf(s.tree.Get(frame, wordFilename)), int(line), s.textOf(s.tree.Get(frame, wordName))}
	place, ok = s.framePlaces[f]
	if !ok {
		if err := s.budget.Take(len(f.File) + len(f.Function) + 2*frameBytes); err != nil {
			return 0, err
		}
		place = uint32(len(s.frames))
		s.frames, s.framePlaces[f] = append(s.frames, f), place
	}
	s.frameAt[frame] = place
	return place, nil
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
