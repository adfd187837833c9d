// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

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

// Frame is one call of a stack.
type Frame struct {
	File     string // the source file, as the compiler or the snapshot names it; "" or "??": unknown
	Line     int    // from 1; 0: unknown
	Function string // the name of the function
}

// String returns "file:line (function)".
func (f Frame) String() string { return f.File + ":" + strconv.Itoa(f.Line) + " (" + f.Function + ")" }

// Stack is the calls that led to an allocation, innermost first.
type Stack []Frame

// CallSite returns the call that a user knows: the innermost line of the program's own Python code or node of PyTorch's
// backward pass, whichever is further inside. A node has only a function. Without both it returns the innermost Python
// call; without Python, the operator that the backward pass called, or else the innermost call with a name. What
// computes on simulated GPUs in the operators' place is no call.
// python/gpuconf/_core/stacks.py has the same rule, and one table tests both.
func (s Stack) CallSite() (site Frame, ok bool) {
	var python, named, operator, first Frame
	backward := false
	for _, f := range s {
		if strings.Contains(unix(f.File), simulation) {
			continue
		}
		if first == (Frame{}) {
			first = f
		}
		if found := calledOperator.FindStringSubmatch(f.Function); found != nil && operator == (Frame{}) {
			operator.Function = found[1]
		}
		backward = backward || strings.HasPrefix(f.Function, "torch::autograd::Engine::")
		if node := f.node(); node != "" {
			return Frame{Function: node}, true
		}
		switch {
		case f.isMachineCode():
			if named == (Frame{}) && f.isNamed() {
				named = f
			}
		case !isLibrary(f.File):
			return f, true
		case python == (Frame{}):
			python = f
		}
	}
	switch {
	case python != (Frame{}):
		return python, true
	case backward && operator != (Frame{}):
		return operator, true
	case named != (Frame{}):
		return named, true
	}
	return first, first != (Frame{})
}

// The innermost of these is what the backward pass computed: PyTorch generates a class for each derivative. A class
// that a program wrote in Python has Python frames.
var autogradNode = regexp.MustCompile(
	`^torch::autograd::(?:generated::(\w+)::(?:apply|operator\(\))|(AccumulateGrad|CopySlices|CopyBackwards)::apply)`)

var calledOperator = regexp.MustCompile(`^at::_ops::(\w+)::`)

func (f Frame) node() string {
	if !strings.HasPrefix(f.Function, "torch::autograd::") {
		return ""
	}
	found := autogradNode.FindStringSubmatch(f.Function)
	if found == nil {
		return ""
	}
	return found[1] + found[2]
}

// machineFile matches sources of C, C++, CUDA and assembly, shared objects, and Python's own executable.
var machineFile = regexp.MustCompile(
	`(?i)\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hxx|inc|inl|s|so(?:\.[\w.]+)?|dll|pyd|exe)$|(?:^|/)python[\d.]*$`)

// isMachineCode reports whether a frame is not one of Python. Python's names have neither "::" nor parentheses.
func (f Frame) isMachineCode() bool {
	return f.File == "" || f.File == "??" || strings.Contains(f.Function, "::") || strings.Contains(f.Function, "(") ||
		machineFile.MatchString(unix(f.File))
}

// isNamed reports whether the name of a frame of machine code says more than that memory was allocated and a stack
// recorded.
func (f Frame) isNamed() bool {
	for _, start := range []string{"torch::unwind", "torch::cuda::", "torch::CapturedTraceback", "c10::",
		"at::detail::empty"} {
		if strings.HasPrefix(f.Function, start) {
			return false
		}
	}
	return f.Function != "" && f.Function != "??"
}

// simulation is part of the names of files of gpuconf's simulated GPUs.
const simulation = "/gpuconf/simulation/"

// installed matches files of installed libraries and of Python itself, also as Windows writes them, and code that
// PyTorch, Triton or Python generated.
var installed = regexp.MustCompile(`/site-packages/|/dist-packages/|/lib/python3\.` +
	`|^[A-Za-z]:/(?:.*/)?(?:[Pp]ython[\d.]*|[^/]*conda[^/]*|envs/[^/]+)/[Ll]ib/` +
	`|/torchinductor_|/[a-z2-7]{2}/c[a-z2-7]{50,}\.py$|/\.triton/|^<frozen |^<eval_with_key>|^<__array_function__`)

func isLibrary(file string) bool { return installed.MatchString(unix(file)) }

func unix(file string) string { return strings.ReplaceAll(file, `\`, "/") }
