// SPDX-License-Identifier: Apache-2.0

package sim

import "gpuconf/gocore/gpu"

// physical is a card's physical memory: one file in memory, in which each handle has a part. Parts are never reused, so handles
// created in sequence are adjacent in the file. Mapped side by side they count as one mapping of the host, which limits the number
// of mappings (vm.max_map_count).
type physical struct {
	file    int // descriptor, once open
	open    bool
	next    uint64
	charged uint64 // parts that are not freed yet
}

// part is the memory of a handle. It is freed when it is neither held nor mapped.
type part struct {
	card     *card
	offset   uint64 // in the card's file
	bytes    uint64
	held     bool // MemRelease has not been called
	mappings int
}

// createPart allocates physical memory. Nothing is committed before it is touched.
func (c *card) createPart(bytes uint64) (*part, error) {
	if err := c.checkGranularity(0, bytes); err != nil {
		return nil, err
	}
	if err := c.affords(bytes); err != nil {
		return nil, err
	}
	if err := c.physical.openFile(); err != nil {
		return nil, c.errorf(gpu.ErrorOutOfMemory, "the host refused a file in memory (%v)", err)
	}
	p := &part{card: c, offset: c.physical.next, bytes: bytes, held: true}
	c.physical.next += bytes
	c.physical.charged += bytes
	c.check()
	return p, nil
}

// drop frees the part if it is neither held nor mapped.
func (p *part) drop() {
	if p.held || p.mappings > 0 {
		return
	}
	p.card.physical.charged -= p.bytes
	// If the host fails here, it only keeps pages longer; the accounting is unaffected.
	_ = punch(p.card.physical.file, p.offset, p.bytes)
}

// checkGranularity returns an error unless a range may be physical memory of this card.
func (c *card) checkGranularity(addr, bytes uint64) error {
	if c.granularity == 0 {
		return c.errorf(gpu.ErrorNotSupported, "virtual memory management is not supported")
	}
	if bytes == 0 || bytes%c.granularity != 0 || addr%c.granularity != 0 {
		return c.errorf(gpu.ErrorInvalidValue, "%d bytes at %#x are not whole granules of %d", bytes, addr, c.granularity)
	}
	return nil
}

func (p *physical) openFile() (err error) {
	if !p.open {
		p.file, err = memoryFile()
		p.open = err == nil
	}
	return err
}

// close closes the file, which must not be mapped any more.
func (p *physical) close() error {
	if !p.open {
		return nil
	}
	file := p.file
	*p = physical{}
	return closeFile(file)
}
