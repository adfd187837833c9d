// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync/atomic"

	"gpuconf/gocore/gpu"
)

// StreamWriteValue64 queues the write of a word.
func (m *Machine) StreamWriteValue64(ordinal int, number gpu.Stream, addr, value uint64) error {
	return m.withWord(ordinal, number, addr, func(c *card, s *stream) error {
		m.enqueue(s, &work{run: func() error {
			if err := m.checkWord(c, addr); err != nil {
				return err
			}
			atomic.StoreUint64(&wordsAt(addr, 1)[0], value)
			return nil
		}})
		return nil
	})
}

// StreamWaitValue64 blocks a stream until a word reaches a value. The word is polled, so its writer needs no
// notification.
func (m *Machine) StreamWaitValue64(ordinal int, number gpu.Stream, addr, value uint64) error {
	return m.withWord(ordinal, number, addr, func(c *card, s *stream) error {
		m.enqueue(s, &work{until: func() bool {
			// The address was valid when this was queued, and stays mapped until the machine closes, which ends the stream first.
			return int64(atomic.LoadUint64(&wordsAt(addr, 1)[0])-value) >= 0
		}})
		return nil
	})
}

// withWord queues an operation on a word.
func (m *Machine) withWord(ordinal int, number gpu.Stream, addr uint64, queue func(*card, *stream) error) error {
	return m.withStream(ordinal, number, func(c *card, s *stream) error {
		if !c.description.StreamMemOps {
			return c.errorf(gpu.ErrorNotSupported, "stream memory operations are not supported")
		}
		if err := m.checkWord(c, addr); err != nil {
			return err
		}
		return queue(c, s)
	})
}

func (m *Machine) checkWord(c *card, addr uint64) error {
	if addr%8 != 0 {
		return c.errorf(gpu.ErrorInvalidValue, "word address %#x is not a multiple of 8", addr)
	}
	if m.host.check(addr, 8) == nil {
		return nil
	}
	return m.checkDevice(c, addr, 8)
}
