// SPDX-License-Identifier: Apache-2.0

package sim

import "gpuconf/gocore/gpu"

// transfer is a copy or a fill.
type transfer struct {
	bytes uint64
	check func(*card) error // returns an error unless all memory that it touches is live. Machine.mu is held
	move  func()
}

func (m *Machine) upload(dst, hostSrc, bytes uint64) transfer {
	return transfer{bytes,
		func(c *card) error { return firstError(m.checkDevice(c, dst, bytes), m.host.check(hostSrc, bytes)) },
		func() { copy(bytesAt(dst, bytes), bytesAt(hostSrc, bytes)) }}
}

func (m *Machine) download(hostDst, src, bytes uint64) transfer {
	return transfer{bytes,
		func(c *card) error { return firstError(m.host.check(hostDst, bytes), m.checkDevice(c, src, bytes)) },
		func() { copy(bytesAt(hostDst, bytes), bytesAt(src, bytes)) }}
}

// within copies within one card. Overlapping ranges, which are undefined in CUDA, are refused.
func (m *Machine) within(dst, src, bytes uint64) transfer {
	check := func(c *card) error {
		if max(dst, src)-min(dst, src) < bytes {
			return c.errorf(gpu.ErrorInvalidValue, "%d bytes at %#x and at %#x overlap", bytes, dst, src)
		}
		return firstError(m.checkDevice(c, dst, bytes), m.checkDevice(c, src, bytes))
	}
	return transfer{bytes, check, func() { copy(bytesAt(dst, bytes), bytesAt(src, bytes)) }}
}

// touching reads or writes one range of a card.
func (m *Machine) touching(addr, bytes uint64, touch func(memory []byte)) transfer {
	return transfer{bytes,
		func(c *card) error { return m.checkDevice(c, addr, bytes) },
		func() { touch(bytesAt(addr, bytes)) }}
}

func (m *Machine) filling(dst uint64, value byte, bytes uint64) transfer {
	return m.touching(dst, bytes, func(memory []byte) { fill(memory, value) })
}

// fill fills a short prefix and copies it over the rest, which is twice as fast as a loop over all bytes.
func fill(memory []byte, value byte) {
	pattern := memory[:min(len(memory), 16<<10)]
	for i := range pattern {
		pattern[i] = value
	}
	for rest := memory[len(pattern):]; len(rest) > 0; {
		rest = rest[copy(rest, pattern):]
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkDevice returns an error unless bytes at addr are within one live allocation of a card, managed or not, or within accessible
// mappings. Machine.mu is held.
func (m *Machine) checkDevice(c *card, addr, bytes uint64) error {
	if c.memory.holds(addr, bytes) || c.managed.holds(addr, bytes) || m.space.accessible(c, addr, bytes) {
		return nil
	}
	return c.errorf(gpu.ErrorInvalidValue, "%d bytes at %#x are not within one live allocation, nor within accessible mappings", bytes, addr)
}

// MemcpyHtoD writes src to the card's memory.
func (m *Machine) MemcpyHtoD(ordinal int, dst uint64, src []byte) error {
	return m.now(ordinal, m.touching(dst, uint64(len(src)), func(memory []byte) { copy(memory, src) }))
}

// MemcpyDtoH reads the card's memory into dst.
func (m *Machine) MemcpyDtoH(ordinal int, dst []byte, src uint64) error {
	return m.now(ordinal, m.touching(src, uint64(len(dst)), func(memory []byte) { copy(dst, memory) }))
}

// MemcpyDtoD copies within the card's memory.
func (m *Machine) MemcpyDtoD(ordinal int, dst, src, bytes uint64) error {
	return m.now(ordinal, m.within(dst, src, bytes))
}

// MemsetD8 fills the card's memory.
func (m *Machine) MemsetD8(ordinal int, dst uint64, value byte, bytes uint64) error {
	return m.now(ordinal, m.filling(dst, value, bytes))
}

// MemcpyHtoDAsync queues a copy from page-locked memory.
func (m *Machine) MemcpyHtoDAsync(ordinal int, dst, hostSrc, bytes uint64, number gpu.Stream) error {
	return m.later(ordinal, m.upload(dst, hostSrc, bytes), number)
}

// MemcpyDtoHAsync queues a copy to page-locked memory.
func (m *Machine) MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, number gpu.Stream) error {
	return m.later(ordinal, m.download(hostDst, src, bytes), number)
}

// MemcpyDtoDAsync queues a copy within the card's memory.
func (m *Machine) MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, number gpu.Stream) error {
	return m.later(ordinal, m.within(dst, src, bytes), number)
}

// MemsetD8Async queues a fill.
func (m *Machine) MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, number gpu.Stream) error {
	return m.later(ordinal, m.filling(dst, value, bytes), number)
}

// later queues a transfer after checking that its memory is live. The check is repeated when the transfer runs.
func (m *Machine) later(ordinal int, t transfer, number gpu.Stream) error {
	return m.withStream(ordinal, number, func(c *card, s *stream) error {
		if t.bytes == 0 {
			return nil
		}
		if err := t.check(c); err != nil {
			return err
		}
		m.enqueue(s, t.work(c))
		return nil
	})
}

func (t transfer) work(c *card) *work {
	return &work{run: func() error {
		if err := t.check(c); err != nil {
			return err
		}
		t.move()
		return nil
	}}
}

// now makes a transfer in the legacy stream and returns when it is done. It queues the transfer only if it has to wait for other
// work.
func (m *Machine) now(ordinal int, t transfer) error {
	queued, err := m.nowOrQueue(ordinal, t)
	if err != nil || queued == nil {
		return err
	}
	return m.await(queued)
}

func (m *Machine) nowOrQueue(ordinal int, t transfer) (queued *work, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil || t.bytes == 0 {
		return nil, err
	}
	if err := t.check(c); err != nil {
		return nil, err
	}
	if queued := m.queueUnlessQuiet(c, t); queued != nil {
		return queued, nil
	}
	t.move()
	return nil, nil
}

func (m *Machine) queueUnlessQuiet(c *card, t transfer) *work {
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	if m.queues.quiet(c) {
		return nil
	}
	return m.enqueue(c.legacy, t.work(c))
}
