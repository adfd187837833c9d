package bfc_test

import (
	"sort"
	"sync"
)

// The allocators that benchmarks compare with. Like ours, both have a mutex and free by address.

// list is the simplest allocator: free pieces in a list sorted by address; best fit visits all of them.
type list struct {
	mu    sync.Mutex
	free  []piece
	sizes map[uint64]uint64 // live
	inUse uint64
}

type piece struct{ addr, bytes uint64 }

func newList(addr, bytes uint64) *list {
	return &list{free: []piece{{addr, bytes}}, sizes: map[uint64]uint64{}}
}

func (l *list) Allocate(bytes uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	rounded := (bytes + 255) / 256 * 256
	best := -1
	for i, p := range l.free {
		if p.bytes >= rounded && (best < 0 || p.bytes < l.free[best].bytes) {
			best = i
		}
	}
	p := &l.free[best]
	addr := p.addr
	p.addr += rounded
	p.bytes -= rounded
	if p.bytes == 0 {
		l.free = append(l.free[:best], l.free[best+1:]...)
	}
	l.sizes[addr] = rounded
	l.inUse += rounded
	return addr
}

func (l *list) Free(addr uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes := l.sizes[addr]
	delete(l.sizes, addr)
	l.inUse -= bytes
	i := 0
	for i < len(l.free) && l.free[i].addr < addr {
		i++
	}
	below := i > 0 && l.free[i-1].addr+l.free[i-1].bytes == addr
	above := i < len(l.free) && addr+bytes == l.free[i].addr
	switch {
	case below && above:
		l.free[i-1].bytes += bytes + l.free[i].bytes
		l.free = append(l.free[:i], l.free[i+1:]...)
	case below:
		l.free[i-1].bytes += bytes
	case above:
		l.free[i].addr, l.free[i].bytes = addr, l.free[i].bytes+bytes
	default:
		l.free = append(l.free, piece{})
		copy(l.free[i+1:], l.free[i:])
		l.free[i] = piece{addr, bytes}
	}
}

// tree is the allocator of the frameworks: free blocks in a red-black tree by size and address, all blocks in a hash
// table.
type tree struct {
	mu     sync.Mutex
	root   *node
	leaf   *node // the sentinel leaf, black
	blocks map[uint64]*node
	inUse  uint64
}

// A node is a block, live or free; its tree links are valid while it is free.
type node struct {
	addr, bytes         uint64
	below, above        *node // neighbors in the address space
	live, red           bool
	parent, left, right *node
}

func newTree(addr, bytes uint64) *tree {
	t := &tree{leaf: &node{}, blocks: map[uint64]*node{}}
	t.root = t.leaf
	t.insert(&node{addr: addr, bytes: bytes})
	return t
}

func (t *tree) Allocate(bytes uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	rounded := (bytes + 255) / 256 * 256
	n := t.lowerBound(rounded)
	t.remove(n)
	if n.bytes > rounded {
		rest := &node{addr: n.addr + rounded, bytes: n.bytes - rounded, below: n, above: n.above}
		if n.above != nil {
			n.above.below = rest
		}
		n.above, n.bytes = rest, rounded
		t.insert(rest)
	}
	n.live = true
	t.blocks[n.addr] = n
	t.inUse += n.bytes
	return n.addr
}

func (t *tree) Free(addr uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.blocks[addr]
	delete(t.blocks, addr)
	t.inUse -= n.bytes
	n.live = false
	if a := n.above; a != nil && !a.live {
		t.remove(a)
		n.join(a)
	}
	if b := n.below; b != nil && !b.live {
		t.remove(b)
		b.join(n)
		n = b
	}
	t.insert(n)
}

func (n *node) join(above *node) {
	n.bytes += above.bytes
	n.above = above.above
	if n.above != nil {
		n.above.below = n
	}
}

func (n *node) less(m *node) bool { return n.bytes < m.bytes || n.bytes == m.bytes && n.addr < m.addr }

func (t *tree) lowerBound(bytes uint64) *node {
	best := t.leaf
	for n := t.root; n != t.leaf; {
		if n.bytes >= bytes {
			best, n = n, n.left
		} else {
			n = n.right
		}
	}
	return best
}

func (t *tree) rotate(x *node, left bool) {
	y := x.right
	if left {
		x.right = y.left
		if y.left != t.leaf {
			y.left.parent = x
		}
	} else {
		y = x.left
		x.left = y.right
		if y.right != t.leaf {
			y.right.parent = x
		}
	}
	t.replace(x, y)
	if left {
		y.left = x
	} else {
		y.right = x
	}
	x.parent = y
}

// replace puts y in the place of x.
func (t *tree) replace(x, y *node) {
	switch {
	case x.parent == t.leaf:
		t.root = y
	case x == x.parent.left:
		x.parent.left = y
	default:
		x.parent.right = y
	}
	y.parent = x.parent
}

func (t *tree) insert(z *node) {
	parent := t.leaf
	for n := t.root; n != t.leaf; {
		parent = n
		if z.less(n) {
			n = n.left
		} else {
			n = n.right
		}
	}
	z.parent, z.left, z.right, z.red = parent, t.leaf, t.leaf, true
	switch {
	case parent == t.leaf:
		t.root = z
	case z.less(parent):
		parent.left = z
	default:
		parent.right = z
	}
	for z.parent.red {
		grand := z.parent.parent
		onLeft := z.parent == grand.left
		uncle := grand.left
		if onLeft {
			uncle = grand.right
		}
		if uncle.red {
			z.parent.red, uncle.red, grand.red = false, false, true
			z = grand
			continue
		}
		if (z == z.parent.right) == onLeft {
			z = z.parent
			t.rotate(z, onLeft)
		}
		z.parent.red, grand.red = false, true
		t.rotate(grand, !onLeft)
	}
	t.root.red = false
}

func (t *tree) remove(z *node) {
	y, red := z, z.red
	var x *node
	switch {
	case z.left == t.leaf:
		x = z.right
		t.replace(z, x)
	case z.right == t.leaf:
		x = z.left
		t.replace(z, x)
	default:
		for y = z.right; y.left != t.leaf; y = y.left {
		}
		red, x = y.red, y.right
		if y.parent == z {
			x.parent = y
		} else {
			t.replace(y, x)
			y.right = z.right
			y.right.parent = y
		}
		t.replace(z, y)
		y.left = z.left
		y.left.parent = y
		y.red = z.red
	}
	if !red {
		t.repair(x)
	}
}

func (t *tree) repair(x *node) {
	for x != t.root && !x.red {
		onLeft := x == x.parent.left
		w := t.child(x.parent, !onLeft)
		if w.red {
			w.red, x.parent.red = false, true
			t.rotate(x.parent, onLeft)
			w = t.child(x.parent, !onLeft)
		}
		if !w.left.red && !w.right.red {
			w.red = true
			x = x.parent
			continue
		}
		if !t.child(w, !onLeft).red {
			t.child(w, onLeft).red = false
			w.red = true
			t.rotate(w, !onLeft)
			w = t.child(x.parent, !onLeft)
		}
		w.red, x.parent.red = x.parent.red, false
		t.child(w, !onLeft).red = false
		t.rotate(x.parent, onLeft)
		x = t.root
	}
	x.red = false
}

func (t *tree) child(n *node, left bool) *node {
	if left {
		return n.left
	}
	return n.right
}

// freePieces lists the free pieces by address, for the test of the baselines.
func (t *tree) freePieces() []piece {
	var pieces []piece
	var walk func(*node)
	walk = func(n *node) {
		if n != t.leaf {
			walk(n.left)
			pieces = append(pieces, piece{n.addr, n.bytes})
			walk(n.right)
		}
	}
	walk(t.root)
	sort.Slice(pieces, func(i, j int) bool { return pieces[i].addr < pieces[j].addr })
	return pieces
}
