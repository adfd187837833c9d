package pickle

import "fmt"

// Budget bounds the memory, and with it the work, that a file can cause.
type Budget struct {
	all, left int
}

// A snapshot takes some four times its size. The base is for small ones that mention the same event often.
const (
	baseBytes    = 4 << 20
	bytesPerByte = 16
)

// NewBudget makes a budget for a file of the given size.
func NewBudget(fileBytes int) *Budget {
	all := baseBytes + bytesPerByte*fileBytes
	return &Budget{all: all, left: all}
}

// Take charges bytes, or fails where that many are not left.
func (b *Budget) Take(bytes int) error {
	if bytes > b.left {
		return fmt.Errorf("its contents take more than %d MiB of memory, more than %d times the size of the file", b.all>>20, bytesPerByte)
	}
	b.left -= bytes
	return nil
}
