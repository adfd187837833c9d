// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// MostStacks is the number of different stacks that one recording keeps. Allocations with further ones have no stack.
const MostStacks = 1 << 17

// Sites are the stacks of a recording, each stored once. Numbers are never reused, not even by another Sites: a number
// that belongs to another recording is unknown here.
type Sites struct {
	read func() uint32 // immutable; returns the site of the calling thread's allocation

	mu     sync.Mutex
	naming *naming           // guarded by mu
	sites  map[uint32]uint32 // guarded by mu; the number in naming, by site
	byText map[string]uint32 // guarded by mu; the site, by text
}

// lastSite is the last number that was given to a stack.
var lastSite atomic.Uint32

// NewSites returns an empty table. read returns the number of the stack of the calling thread's allocation, or 0.
func NewSites(read func() uint32) *Sites {
	return &Sites{read: read, naming: newNaming(), sites: map[uint32]uint32{}, byText: map[string]uint32{}}
}

// Add returns the number of a stack, which is given as text: for each frame, innermost first, its file, its line and
// its function, each followed by a NUL character. It returns 0 if the table is full or the text is malformed.
func (s *Sites) Add(text string) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if site, ok := s.byText[text]; ok {
		return site
	}
	frames := parseFrames(text)
	if len(frames) == 0 || len(s.byText) >= MostStacks {
		return 0
	}
	site := lastSite.Add(1)
	s.sites[site] = s.naming.stack(text, func() Stack { return frames })
	s.byText[strings.Clone(text)] = site
	return site
}

func parseFrames(text string) (frames Stack) {
	fields := strings.Split(text, "\x00")
	for ; len(fields) > 3; fields = fields[3:] {
		line, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil
		}
		frames = append(frames, Frame{fields[0], line, fields[2]})
	}
	return frames
}

// Stack returns the stack of a site, or nil if the site is unknown.
func (s *Sites) Stack(site uint32) Stack {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.naming.Stacks[s.sites[site]]
}
