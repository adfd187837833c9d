// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strings"

	"gpuconf/gocore/base/holder"
)

// Holder names who holds a block: a library and a tag, as in package holder. Both are "" if unknown.
type Holder struct {
	Library, Tag string // such as "torch" and "optimizer"
}

// Names are what events refer to by number. Number 0 of each is unknown.
type Names struct {
	Holders []Holder // by number, as Event.Holder has it
	Stacks  []Stack  // by number, as Event.Stack has it
}

// naming collects Names, each once.
type naming struct {
	Names
	byID    map[holder.ID]uint32
	bySite  map[uint32]uint32
	holders map[Holder]uint32
	stacks  map[string]uint32 // by text
	texts   map[string]string // the strings of frames, so that equal ones share memory
}

func newNaming() *naming {
	return &naming{
		Names:   Names{Holders: []Holder{{}}, Stacks: []Stack{nil}},
		byID:    map[holder.ID]uint32{},
		bySite:  map[uint32]uint32{},
		holders: map[Holder]uint32{{}: 0}, stacks: map[string]uint32{"": 0}, texts: map[string]string{},
	}
}

func (n *naming) holder(h Holder) uint32 {
	number, ok := n.holders[h]
	if !ok {
		number = uint32(len(n.Holders))
		h = Holder{strings.Clone(h.Library), strings.Clone(h.Tag)}
		n.holders[h], n.Holders = number, append(n.Holders, h)
	}
	return number
}

// holderOf is holder, for an ID of this process.
func (n *naming) holderOf(id holder.ID) uint32 {
	number, ok := n.byID[id]
	if !ok {
		number = n.holder(Holder{id.Library().String(), id.Tag().String()})
		n.byID[id] = number
	}
	return number
}

// site adds the stack of a site of this process; 0 if it is unknown.
func (n *naming) site(site uint32, sites *Sites) uint32 {
	number, ok := n.bySite[site]
	if !ok {
		if stack := sites.Stack(site); stack != nil {
			number = uint32(len(n.Stacks))
			n.Stacks = append(n.Stacks, stack)
		}
		n.bySite[site] = number
	}
	return number
}

// stack adds a stack under a text that identifies it. frames is called for a new one.
func (n *naming) stack(text string, frames func() Stack) uint32 {
	number, ok := n.stacks[text]
	if !ok {
		number = uint32(len(n.Stacks))
		n.stacks[strings.Clone(text)], n.Stacks = number, append(n.Stacks, n.shared(frames()))
	}
	return number
}

// shared returns a stack whose strings are stored once.
func (n *naming) shared(frames Stack) Stack {
	own := make(Stack, len(frames))
	for i, f := range frames {
		own[i] = Frame{n.text(f.File), f.Line, n.text(f.Function)}
	}
	return own
}

func (n *naming) text(s string) string {
	shared, ok := n.texts[s]
	if !ok {
		shared = strings.Clone(s)
		n.texts[shared] = shared
	}
	return shared
}
