// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// Unknown is a size in a Partial that is not known before a run.
const Unknown = -1

// Partial is what is known of a tensor's shape before a run. A placeholder's shape may be partly unknown, and so may
// the shapes of the nodes that read it.
type Partial struct {
	Sizes    Shape // Unknown where a size is not known
	Unranked bool  // not even the number of dimensions is known; then Sizes is nil
}

// String formats the shape like TensorFlow's errors: "[2,?]", or "?" for an unknown number of dimensions.
func (p Partial) String() string {
	if p.Unranked {
		return "?"
	}
	return "[" + strings.Join(p.texts("?"), ",") + "]"
}

// texts formats the sizes.
func (p Partial) texts(unknown string) []string {
	texts := make([]string, len(p.Sizes))
	for i, size := range p.Sizes {
		texts[i] = unknown
		if size != Unknown {
			texts[i] = strconv.FormatInt(size, 10)
		}
	}
	return texts
}

// Full returns the shape; ok is false if any of it is unknown.
func (p Partial) Full() (s Shape, ok bool) {
	for _, size := range p.Sizes {
		if size == Unknown {
			return nil, false
		}
	}
	return p.Sizes, !p.Unranked
}

// matches reports whether a tensor of this shape may have the shape s.
func (p Partial) matches(s Shape) bool {
	if p.Unranked {
		return true
	}
	if len(p.Sizes) != len(s) {
		return false
	}
	for i, size := range p.Sizes {
		if size != Unknown && size != s[i] {
			return false
		}
	}
	return true
}

// check rejects an invalid shape. Of one that is not fully known, only what is known is checked.
func (p Partial) check(d gpu.DType) error {
	if s, full := p.Full(); full {
		return s.check(d)
	}
	if len(p.Sizes) > maxRank {
		return p.Sizes.check(d)
	}
	for _, size := range p.Sizes {
		if size < Unknown {
			return status.Errorf(status.Value, "Dimension %d must be >= 0", size)
		}
	}
	return nil
}
