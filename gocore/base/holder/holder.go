// SPDX-License-Identifier: Apache-2.0

package holder

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
