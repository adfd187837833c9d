package handover

import "gpuconf/gocore/machine/gpu"

// Kind is the kind of a stream.
type Kind int

// The kinds of streams.
const (
	NonBlocking Kind = iota
	Blocking
	Legacy
)

// Program is what a few threads do on a pool of some number of units of 256 bytes.
type Program struct {
	Name    string
	Units   uint64
	Streams []Kind
	Threads [][]Op
}

type action int

const (
	allocate action = iota
	write
	check
	record
	free
	freeOn
	join
	synchronize
)

// Op is one call of a thread, or one or two calls that queue work.
type Op struct {
	do     action
	block  string
	stream int // of Program.Streams
	units  uint64
	after  int // for join: the stream to wait for
}

// Allocate allocates a block of so many units for a stream.
func Allocate(block string, stream int, units uint64) Op {
	return Op{do: allocate, block: block, stream: stream, units: units}
}

// Write queues a fill of a block with its value.
func Write(block string, stream int) Op { return Op{do: write, block: block, stream: stream} }

// Check queues a read of a block, which must return its value.
func Check(block string, stream int) Op { return Op{do: check, block: block, stream: stream} }

// Record records that a stream uses a block.
func Record(block string, stream int) Op { return Op{do: record, block: block, stream: stream} }

// Free frees a block.
func Free(block string) Op { return Op{do: free, block: block} }

// FreeOn frees a block with the stream of its last use.
func FreeOn(block string, stream int) Op { return Op{do: freeOn, block: block, stream: stream} }

// Join makes a stream wait for the work queued in another one now, with the program's own event.
func Join(stream, after int) Op { return Op{do: join, stream: stream, after: after} }

// Synchronize waits for a stream.
func Synchronize(stream int) Op { return Op{do: synchronize, stream: stream} }

// Programs are small programs that cover all kinds of hand-over.
func Programs() []Program {
	use := func(block string, stream int, units uint64) []Op {
		return []Op{Allocate(block, stream, units), Write(block, stream), Check(block, stream), Free(block)}
	}
	two, three := []Kind{NonBlocking, NonBlocking}, []Kind{NonBlocking, NonBlocking, NonBlocking}
	return []Program{
		{"one block for two streams", 1, two, [][]Op{use("a", 0, 1), use("b", 1, 1)}},
		{"one block for three streams", 1, three, [][]Op{
			{Allocate("a", 0, 1), Write("a", 0), Free("a")}, {Allocate("b", 1, 1), Write("b", 1), Free("b")},
			use("c", 2, 1),
		}},
		{"there and back", 1, two, [][]Op{
			{Allocate("a", 0, 1), Write("a", 0), Free("a"), Allocate("c", 0, 1), Write("c", 0), Check("c", 0),
				Free("c")}, use("b", 1, 1),
		}},
		{"a second stream reads, and is recorded", 1, three, [][]Op{
			{Allocate("a", 0, 1), Write("a", 0), Join(1, 0), Check("a", 1), Record("a", 1), Free("a")}, use("b", 2, 1),
		}},
		{"recorded first, used then", 1, three, [][]Op{
			{Allocate("a", 0, 1), Record("a", 1), Write("a", 0), Join(1, 0), Check("a", 1), Free("a")}, use("b", 2, 1),
		}},
		{"the recorded stream takes it", 1, two, [][]Op{
			{Allocate("a", 0, 1), Write("a", 0), Join(1, 0), Check("a", 1), Record("a", 1), Free("a")}, use("b", 1, 1),
		}},
		{"its own stream goes on, and the recorded one is done", 2, three, [][]Op{append([]Op{
			Allocate("e", 0, 1), Allocate("a", 0, 1), Write("a", 0), Join(1, 0), Check("a", 1), Record("a", 1),
			Write("a", 0), Free("a"),
			Allocate("too much, so marks are queued", 2, 2),
		}, use("b", 2, 1)...)}},
		{"freed on the stream that reads", 1, three, [][]Op{
			{Allocate("a", 0, 1), Write("a", 0), Join(1, 0), Check("a", 1), FreeOn("a", 1)}, use("b", 2, 1),
		}},
		{"the first stream takes it again from its reader", 1, two, [][]Op{
			{Allocate("a", 0, 1), Write("a", 0), Join(1, 0), Check("a", 1), FreeOn("a", 1)}, use("b", 0, 1),
		}},
		{"neighbors of two streams become one block of a third", 2, three, [][]Op{
			{Allocate("a", 0, 1), Write("a", 0), Free("a")}, {Allocate("b", 1, 1), Write("b", 1), Free("b")},
			use("c", 2, 2),
		}},
		{"what is left of neighbors goes to a fourth", 4, []Kind{NonBlocking, NonBlocking, NonBlocking, NonBlocking},
			[][]Op{{
				Allocate("a", 0, 2), Allocate("b", 1, 2), Write("a", 0), Write("b", 1), Free("a"), Free("b"),
				Allocate("c", 2, 3), Allocate("d", 3, 1), Write("d", 3), Check("d", 3), Free("c"), Free("d"),
			}}},
		{"a block and what is left of it", 2, two, [][]Op{
			{Allocate("a", 0, 2), Write("a", 0), Check("a", 0), Free("a")},
			{Allocate("b", 1, 1), Write("b", 1), Allocate("c", 1, 1), Write("c", 1), Check("b", 1),
				Free("b"), Free("c")},
		}},
		{"with a wait of the host", 1, two, [][]Op{
			{Allocate("a", 0, 1), Write("a", 0), Free("a"), Synchronize(0), Allocate("c", 0, 1), Write("c", 0),
				Free("c")}, use("b", 1, 1),
		}},
		{"the default stream and one that waits for it", 1, []Kind{Legacy, Blocking},
			[][]Op{use("a", 0, 1), use("b", 1, 1)}},
		{"the default stream and one that does not", 1, []Kind{Legacy, NonBlocking},
			[][]Op{use("a", 0, 1), use("b", 1, 1)}},
	}
}

func (k Kind) ordered() bool { return k != NonBlocking }

func (k Kind) flags() gpu.StreamFlags {
	if k == NonBlocking {
		return gpu.StreamNonBlocking
	}
	return gpu.StreamDefault
}
