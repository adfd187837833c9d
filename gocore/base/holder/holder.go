// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"gpuconf/gocore/base/status"
)

// Library is the entry point that allocated a block.
type Library uint8

// The libraries. Their values are also in pybind/cabi/abi.h.
const (
	C       Library = iota // gpuconf_malloc, called from C
	Gpuconf                // buffers and tensors
	Torch
	CuPy
	Numba
)

var libraryNames = [...]string{"c", "gpuconf", "torch", "cupy", "numba"}

// String returns the name that users see.
func (l Library) String() string {
	if int(l) >= len(libraryNames) {
		return ""
	}
	return libraryNames[l]
}

// Tag is the number of an interned name. 0 is no tag.
type Tag uint16

const (
	libraryBits = 3

	// Other is the tag of names that came after MostTags others.
	Other Tag = 1<<(16-libraryBits) - 1

	// MostTags is the number of names that get a tag of their own.
	MostTags = int(Other) - 1
)

// ID is a library and a tag.
type ID uint16

// Of combines a library and a tag.
func Of(l Library, t Tag) ID { return ID(t)<<libraryBits | ID(l) }

// Library returns the library of an ID.
func (id ID) Library() Library { return Library(id & (1<<libraryBits - 1)) }

// Tag returns the tag of an ID.
func (id ID) Tag() Tag { return Tag(id >> libraryBits) }

// MostBytes is the length of the longest name of a tag, in UTF-8.
const MostBytes = 200

// otherName is the name of Other.
const otherName = "(other)"

// tags are the names so far.
var tags = struct {
	sync.Mutex
	byName map[string]Tag
	names  []string // by number; 0 is no tag
}{byName: map[string]Tag{otherName: Other}, names: []string{""}}

// Intern returns the tag of a name. It returns Other if too many other names came first. Names that are empty, longer
// than MostBytes, not valid UTF-8, or that contain a control character are InvalidArgument.
func Intern(name string) (Tag, error) {
	tags.Lock()
	defer tags.Unlock()
	if t, ok := tags.byName[name]; ok {
		return t, nil
	}
	if err := check(name); err != nil {
		return 0, err
	}
	if len(tags.names) > MostTags {
		return Other, nil // not stored: there may be any number of them
	}
	t := Tag(len(tags.names))
	name = strings.Clone(name)
	tags.names = append(tags.names, name)
	tags.byName[name] = t
	return t, nil
}

// String returns the name of a tag; "" for no tag.
func (t Tag) String() string {
	if t == Other {
		return otherName
	}
	tags.Lock()
	defer tags.Unlock()
	if int(t) >= len(tags.names) {
		return ""
	}
	return tags.names[t]
}

func check(name string) error {
	switch {
	case name == "":
		return status.Errorf(status.InvalidArgument, "a tag must not be empty")
	case len(name) > MostBytes:
		return status.Errorf(status.InvalidArgument, "a tag must be at most %d bytes long, but got %d bytes that "+
			"begin with %s",
			MostBytes, len(name), strconv.Quote(strings.ToValidUTF8(name[:40], "?")))
	case !utf8.ValidString(name):
		return status.Errorf(status.InvalidArgument, "a tag must be valid UTF-8, but got %s", strconv.Quote(name))
	case strings.ContainsFunc(name, unicode.IsControl):
		return status.Errorf(status.InvalidArgument, "a tag must not contain control characters, but got %s",
			strconv.Quote(name))
	}
	return nil
}
