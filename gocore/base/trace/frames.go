// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"regexp"
	"strconv"
	"strings"
)

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
// call; without Python, the operator that the backward pass called, or else the innermost call with a name.
// python/gpuconf/_core/stacks.py has the same rule, and one table tests both.
func (s Stack) CallSite() (site Frame, ok bool) {
	var python, named, operator Frame
	backward := false
	for _, f := range s {
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
	case len(s) > 0:
		return s[0], true
	}
	return Frame{}, false
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

// installed matches files of installed libraries and of Python itself, also as Windows writes them, and code that
// PyTorch, Triton or Python generated.
var installed = regexp.MustCompile(`/site-packages/|/dist-packages/|/lib/python3\.` +
	`|^[A-Za-z]:/(?:.*/)?(?:[Pp]ython[\d.]*|[^/]*conda[^/]*|envs/[^/]+)/[Ll]ib/` +
	`|/torchinductor_|/[a-z2-7]{2}/c[a-z2-7]{50,}\.py$|/\.triton/|^<frozen |^<eval_with_key>|^<__array_function__`)

func isLibrary(file string) bool { return installed.MatchString(unix(file)) }

func unix(file string) string { return strings.ReplaceAll(file, `\`, "/") }
