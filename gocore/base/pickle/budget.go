// SPDX-License-Identifier: Apache-2.0

package pickle

import "fmt"

// Budget bounds the memory, and with it the work, that a file can cause (invariants 2 and 3).
type Budget struct {
	all, left int
}

// A snapshot takes about four times its size, and up to sixteen times if its stacks are long: a reference to a frame
// takes two bytes of the file and sixteen here. The base is for small snapshots that refer to the same event many
// times.
const (
	baseBytes    = 4 << 20
	bytesPerByte = 32
)

// NewBudget returns the budget for a file of the given size.
func NewBudget(fileBytes int) *Budget {
	all := baseBytes + bytesPerByte*fileBytes
	return &Budget{all: all, left: all}
}

// Take charges bytes, or fails if fewer are left.
func (b *Budget) Take(bytes int) error {
	if bytes > b.left {
		return fmt.Errorf("its contents take more than %d MiB of memory, more than %d times the size of the file",
			b.all>>20, bytesPerByte)
	}
	b.left -= bytes
	return nil
}
