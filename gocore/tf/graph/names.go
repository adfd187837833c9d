// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
)

// names makes the nodes' names unique, like TensorFlow: "Const", "Const_1", "Const_2". Names are not case-sensitive.
type names struct {
	taken map[string]bool // lower case
	next  map[string]int  // lower-case requested name -> the first number that may be free
}

// unique returns a unique name for a requested name; commit reserves it. A name that ends in a slash is used without
// the slash, and must already be unique.
func (n *names) unique(asked string) (name string, commit func(), err error) {
	exact, isExact := strings.CutSuffix(asked, "/")
	if isExact {
		asked = exact
	}
	if !validName(asked) {
		return "", nil, status.Errorf(status.InvalidArgument, "'%s' is not a valid node name", asked)
	}
	key := strings.ToLower(asked)
	if isExact && n.taken[key] {
		return "", nil, status.Errorf(status.InvalidArgument, "Duplicate node name in graph: '%s'", asked)
	}
	if !n.taken[key] {
		return asked, func() { n.take(key, key, 1) }, nil
	}
	number := n.next[key]
	for n.taken[key+"_"+strconv.Itoa(number)] {
		number++
	}
	suffix := "_" + strconv.Itoa(number)
	return asked + suffix, func() { n.take(key+suffix, key, number+1) }, nil
}

// take marks a name as used, and records that no number below next is free for the requested name.
func (n *names) take(key, asked string, next int) {
	if n.taken == nil {
		n.taken, n.next = map[string]bool{}, map[string]int{}
	}
	n.taken[key] = true
	n.next[key] = max(n.next[key], 1)
	n.next[asked] = max(n.next[asked], next)
}

// validName is TensorFlow's rule: ^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.':
		case i > 0 && strings.IndexByte(`_\/>-`, c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}
