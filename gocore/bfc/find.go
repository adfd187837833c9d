// SPDX-License-Identifier: Apache-2.0

package bfc

// Find returns the live block that begins at addr, and its requested size.
func (a *Allocator) Find(addr uint64) (block Block, requestedBytes uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.index.Find(addr)
	if !ok {
		return Block{}, 0, false
	}
	i := a.index.At(at)
	c := &a.chunks.Records[i]
	return Block{Addr: addr, Bytes: c.Bytes(), ID: c.ID()}, a.chunks.Requested(i), true
}
