// Package traces generates sequences of allocations and frees for tests and benchmarks of allocators. A trace is always
// the same: its random numbers have a fixed seed.
package traces

import (
	"math"
	"math/rand/v2"
)

// Op allocates a block or, with Bytes 0, frees it. Numbers of blocks are reused after they are freed.
type Op struct {
	Block uint32
	Bytes uint64
}

// Trace is a sequence of operations. The first Warm of them build up the state in which the rest is measured.
type Trace struct {
	Name       string
	Ops        []Op
	Warm       int
	Blocks     int    // numbers of blocks are below this; also the maximum live at one time
	PeakBytes  uint64 // maximum bytes live at one time
	LimitBytes uint64 // a pool of this size serves the trace with room to spare
}

// Laws returns the six traces by which allocators are compared.
func Laws() []Trace {
	return []Trace{HotPair(), Transformer(), Churn("churn-8MiB", 1_000, 200_000, 512, 8<<20),
		Random("random-64MiB", 200_000, 64<<20), Random("random-1MiB", 200_000, 1<<20),
		Churn("churn-1MiB", 50_000, 200_000, 512, 1<<20)}
}

// HotPair repeatedly allocates and frees 4 KiB.
func HotPair() Trace {
	b := newBuilder("hot-pair", 1)
	for range 100_000 {
		b.free(b.alloc(4 << 10))
	}
	return b.trace(0)
}

// Churn keeps a number of live blocks of log-uniform sizes and replaces random ones. It is warm when as many were
// replaced as are live.
func Churn(name string, live, ops int, low, high uint64) Trace {
	b := newBuilder(name, 2)
	var blocks []uint32
	size := func() uint64 { return logUniform(b.random, low, high) }
	for range live {
		blocks = append(blocks, b.alloc(size()))
	}
	warm := 3 * live
	for len(b.ops) < warm+ops {
		i := b.random.IntN(len(blocks))
		b.free(blocks[i])
		blocks[i] = b.alloc(size())
	}
	return b.trace(warm)
}

// Waves keeps live blocks of one size, and frees half of them in random order before it allocates them again: many
// equal holes.
func Waves(name string, live, ops int, bytes uint64) Trace {
	b := newBuilder(name, 5)
	blocks := make([]uint32, live)
	for i := range blocks {
		blocks[i] = b.alloc(bytes)
	}
	warm := len(b.ops)
	for len(b.ops) < warm+ops {
		victims := b.random.Perm(live)[:live/2]
		for _, i := range victims {
			b.free(blocks[i])
		}
		for _, i := range victims {
			blocks[i] = b.alloc(bytes)
		}
	}
	return b.trace(warm)
}

func logUniform(random *rand.Rand, low, high uint64) uint64 {
	lo, hi := math.Log(float64(low)), math.Log(float64(high))
	return uint64(math.Exp(lo + (hi-lo)*random.Float64()))
}

// Random follows RMM's random allocations: sizes uniform up to most, 73 % allocations while at most 16 GB are live,
// random victims. It is warm when the 16 GB are reached.
func Random(name string, ops int, most uint64) Trace {
	const liveBytes = 16_000_000_000
	b := newBuilder(name, 3)
	var blocks []uint32
	warm := 0
	for len(b.ops) < warm+ops {
		size := 1 + b.random.Uint64N(most)
		if b.random.IntN(100) < 73 && b.bytes+size <= liveBytes {
			blocks = append(blocks, b.alloc(size))
			continue
		}
		if len(blocks) == 0 {
			continue
		}
		if warm == 0 && b.bytes+size > liveBytes {
			warm = len(b.ops)
		}
		i := b.random.IntN(len(blocks))
		b.free(blocks[i])
		blocks[i] = blocks[len(blocks)-1]
		blocks = blocks[:len(blocks)-1]
	}
	return b.trace(warm)
}

// Transformer has the shape of a training loop: weights and optimizer state stay, activations are kept layer by layer
// for the backward pass, gradients live until the update, and batch and length vary from step to step.
func Transformer() Trace {
	const (
		layers, hidden = 24, 2048
		weightBytes    = 12 * hidden * hidden * 2
	)
	b := newBuilder("transformer", 4)
	for range layers {
		b.alloc(weightBytes)
		b.alloc(2 * weightBytes)
		b.alloc(2 * weightBytes)
	}
	for range 100 {
		tokens := uint64(b.random.IntN(8)+1) * uint64(b.random.IntN(1536)+512)
		unit := tokens * hidden * 2
		b.step(layers, unit, weightBytes)
	}
	return b.trace(0)
}

// step is one forward pass, one backward pass and one update.
func (b *builder) step(layers int, unit, weightBytes uint64) {
	kept := make([][]uint32, layers)
	for i := range kept {
		norm := b.alloc(unit)
		qkv := b.alloc(3 * unit)
		b.free(norm)
		attention := b.alloc(unit)
		scratch := b.alloc(unit / 2)
		up := b.alloc(4 * unit)
		b.free(scratch)
		out := b.alloc(unit)
		kept[i] = []uint32{qkv, attention, up, out}
	}
	gradients := make([]uint32, layers)
	for i := layers - 1; i >= 0; i-- {
		wide := b.alloc(4 * unit)
		gradients[i] = b.alloc(weightBytes)
		for _, block := range kept[i] {
			narrow := b.alloc(unit)
			b.free(block)
			b.free(narrow)
		}
		b.free(wide)
	}
	for _, gradient := range gradients {
		scratch := b.alloc(weightBytes)
		b.free(gradient)
		b.free(scratch)
	}
}

// builder builds a trace and keeps count.
type builder struct {
	name   string
	random *rand.Rand
	ops    []Op
	sizes  []uint64 // by block; 0: free
	unused []uint32
	bytes  uint64
	peak   uint64
}

func newBuilder(name string, seed uint64) *builder {
	return &builder{name: name, random: rand.New(rand.NewPCG(seed, 0))}
}

func (b *builder) alloc(bytes uint64) uint32 {
	block := uint32(len(b.sizes))
	if n := len(b.unused); n > 0 {
		block, b.unused = b.unused[n-1], b.unused[:n-1]
	} else {
		b.sizes = append(b.sizes, 0)
	}
	b.sizes[block] = bytes
	b.bytes += bytes
	b.peak = max(b.peak, b.bytes)
	b.ops = append(b.ops, Op{block, bytes})
	return block
}

func (b *builder) free(block uint32) {
	b.bytes -= b.sizes[block]
	b.sizes[block] = 0
	b.unused = append(b.unused, block)
	b.ops = append(b.ops, Op{Block: block})
}

func (b *builder) trace(warm int) Trace {
	return Trace{Name: b.name, Ops: b.ops, Warm: warm, Blocks: len(b.sizes), PeakBytes: b.peak,
		LimitBytes: 2*b.peak + 64<<20}
}
