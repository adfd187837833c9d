package caching

import (
	"cmp"
	"slices"
)

// PoolID names a private pool. The zero value is the default pool.
type PoolID [2]uint64

// shelfKey names a shelf.
type shelfKey struct {
	pool   PoolID
	small  bool
	stream uint64
}

// shelf holds the free blocks that may serve the same requests.
type shelf struct {
	shelfKey
	free     ordered // by size, then address
	unmapped ordered // by address
	counted  *uint64 // searches of the pool's size group
}

func (s *shelf) searches() uint64 { return *s.counted }

func bySize(a, b *Block) int {
	if a.Bytes != b.Bytes {
		return cmp.Compare(a.Bytes, b.Bytes)
	}
	return cmp.Compare(a.Addr, b.Addr)
}

func byAddr(a, b *Block) int { return cmp.Compare(a.Addr, b.Addr) }

// mostInRun bounds the blocks that an insertion moves.
const mostInRun = 256

// ordered is a sorted list of blocks in runs, each of at most mostInRun blocks and none empty.
type ordered struct {
	runs    [][]*Block
	compare func(a, b *Block) int
	key     Block // for searches
}

// at returns the place of the first block that is not before b. It may be behind the last run.
func (o *ordered) at(b *Block) (run, i int) {
	run, _ = slices.BinarySearchFunc(o.runs, b, func(r []*Block, b *Block) int { return o.compare(r[len(r)-1], b) })
	if run < len(o.runs) {
		i, _ = slices.BinarySearchFunc(o.runs[run], b, o.compare)
	}
	return run, i
}

func (o *ordered) insert(b *Block) {
	run, i := o.at(b)
	if run == len(o.runs) {
		if run == 0 {
			o.runs = append(o.runs, append(make([]*Block, 0, mostInRun), b))
			return
		}
		run--
		i = len(o.runs[run])
	}
	o.runs[run] = slices.Insert(o.runs[run], i, b)
	if full := o.runs[run]; len(full) == mostInRun {
		upper := append(make([]*Block, 0, mostInRun), full[mostInRun/2:]...)
		clear(full[mostInRun/2:])
		o.runs[run] = full[:mostInRun/2]
		o.runs = slices.Insert(o.runs, run+1, upper)
	}
}

func (o *ordered) remove(b *Block) {
	run, i := o.at(b)
	o.runs[run] = slices.Delete(o.runs[run], i, i+1)
	if len(o.runs[run]) == 0 {
		o.runs = slices.Delete(o.runs, run, run+1)
	}
}

// from iterates over the blocks that are not before one with this size and address, in order. The list must not change meanwhile.
func (o *ordered) from(bytes, addr uint64) func(yield func(*Block) bool) {
	return func(yield func(*Block) bool) {
		o.key.Bytes, o.key.Addr = bytes, addr
		run, i := o.at(&o.key)
		for ; run < len(o.runs); run, i = run+1, 0 {
			for _, block := range o.runs[run][i:] {
				if !yield(block) {
					return
				}
			}
		}
	}
}

// all returns the blocks in order, in a list of its own.
func (o *ordered) all() []*Block { return slices.Concat(o.runs...) }

// last returns the last block, or nil.
func (o *ordered) last() *Block {
	if len(o.runs) == 0 {
		return nil
	}
	run := o.runs[len(o.runs)-1]
	return run[len(run)-1]
}
