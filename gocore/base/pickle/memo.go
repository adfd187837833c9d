// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"fmt"
	"strconv"
)

// memory runs the instructions of the memo.
func (m *machine) memory(op byte) (handled bool, err error) {
	var index uint64
	switch op {
	case opMemoize:
		index = uint64(len(m.memo) + len(m.others))
	case opBinPut, opBinGet:
		index, err = m.unsigned(1)
	case opLongBinPut, opLongBinGet:
		index, err = m.unsigned(4)
	case opPut, opGet:
		index, err = m.indexLine()
	default:
		return false, nil
	}
	if err != nil {
		return true, err
	}
	if op == opBinGet || op == opLongBinGet || op == opGet {
		return true, m.recall(index)
	}
	return true, m.memoize(index)
}

func (m *machine) indexLine() (uint64, error) {
	raw, err := m.line()
	if err != nil {
		return 0, err
	}
	index, err := strconv.ParseUint(m.shown(raw), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s is not a memo index", m.shown(raw))
	}
	return index, nil
}

func (m *machine) memoize(index uint64) (err error) {
	v, err := m.top()
	if err != nil {
		return err
	}
	switch {
	case index < uint64(len(m.memo)):
		m.memo[index] = v
	case index == uint64(len(m.memo)):
		delete(m.others, index)
		if m.memo, err = grown(m.budget, m.memo, 1); err == nil {
			m.memo = append(m.memo, v)
		}
	default:
		if m.others == nil {
			m.others = map[uint64]Value{}
		}
		if _, there := m.others[index]; !there {
			const entryBytes = 4 * valueBytes // of a map
			err = m.budget.Take(entryBytes)
		}
		m.others[index] = v
	}
	return err
}

func (m *machine) recall(index uint64) error {
	if index < uint64(len(m.memo)) {
		return m.push(m.memo[index])
	}
	v, there := m.others[index]
	if !there {
		return fmt.Errorf("memo entry %d is not set", index)
	}
	return m.push(v)
}
