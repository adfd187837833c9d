package main

import "slices"

// liveMap holds stretches of addresses in order and detects overlaps. It is a list of short sorted lists.
type liveMap struct{ parts [][]stretch }

type stretch struct{ from, to uint64 }

const mostInPart = 512

// add inserts a stretch, unless it overlaps one.
func (m *liveMap) add(s stretch) bool {
	if len(m.parts) == 0 {
		m.parts = [][]stretch{{s}}
		return true
	}
	p, i := m.find(s.from)
	part := m.parts[p]
	if i < len(part) && part[i].from < s.to {
		return false
	}
	if i == len(part) && p+1 < len(m.parts) && m.parts[p+1][0].from < s.to {
		return false
	}
	if i > 0 && part[i-1].to > s.from {
		return false
	}
	part = slices.Insert(part, i, s)
	m.parts[p] = part
	if len(part) > mostInPart {
		half := slices.Clone(part[len(part)/2:])
		m.parts[p] = part[:len(part)/2]
		m.parts = slices.Insert(m.parts, p+1, half)
	}
	return true
}

// remove removes the stretch that begins at an address.
func (m *liveMap) remove(from uint64) bool {
	if len(m.parts) == 0 {
		return false
	}
	p, i := m.find(from)
	if i == len(m.parts[p]) || m.parts[p][i].from != from {
		return false
	}
	m.parts[p] = slices.Delete(m.parts[p], i, i+1)
	if len(m.parts[p]) == 0 {
		m.parts = slices.Delete(m.parts, p, p+1)
	}
	return true
}

// find returns the part where an address belongs, and the first position in it that is not below the address.
func (m *liveMap) find(from uint64) (part, at int) {
	compare := func(s stretch, from uint64) int {
		switch {
		case s.from < from:
			return -1
		case s.from > from:
			return 1
		}
		return 0
	}
	part, found := slices.BinarySearchFunc(m.parts, from,
		func(p []stretch, from uint64) int { return compare(p[0], from) })
	if !found && part > 0 {
		part--
	}
	at, _ = slices.BinarySearchFunc(m.parts[part], from, compare)
	return part, at
}
