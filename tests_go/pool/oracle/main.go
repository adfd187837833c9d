// Command oracle runs allocation traces on gpuconf's allocator, for the comparison with TensorFlow's (make oracle). A
// twin of this program in C++, tests_py/oracle/cpp/bfc_traces.cc, runs TensorFlow's on the same traces. Both read
// traces from standard input until it ends, and write to standard output the number of steps and a record for each
// step, little-endian.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
)

// header starts a trace. The steps follow: first all slots, then all sizes.
type header struct {
	Steps    uint64
	Limit    uint64
	Capacity uint64 // of the device
	Layout   uint64 // where the device puts regions: see device.place
	Fraction float64
	Growth   uint8
	Collect  uint8
	Exact    uint8 // gpuconf's split rule instead of TensorFlow's
	_        [5]uint8
}

// clearStats is the slot of a step that resets the statistics.
const clearStats = ^uint32(0)

// record is the result of a step and the allocator's state after it. Calls is a running hash of the calls to the
// device.
type record struct {
	Addr, Current, Peak, Pool, Allocs, Largest, Calls uint64
}

func main() {
	if err := run(bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func run(in *bufio.Reader, out *bufio.Writer) error {
	for {
		var h header
		if err := binary.Read(in, binary.LittleEndian, &h); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		slots, sizes := make([]uint32, h.Steps), make([]uint64, h.Steps)
		if err := errors.Join(binary.Read(in, binary.LittleEndian, slots), binary.Read(in, binary.LittleEndian,
			sizes)); err != nil {
			return err
		}
		records, err := trace(h, slots, sizes)
		if err != nil {
			return err
		}
		if err := errors.Join(binary.Write(out, binary.LittleEndian, uint64(len(records))),
			binary.Write(out, binary.LittleEndian, records), out.Flush()); err != nil {
			return err
		}
	}
}

func trace(h header, slots []uint32, sizes []uint64) ([]record, error) {
	dev := &device{capacity: h.Capacity, layout: h.Layout, regions: map[uint64]uint64{}, next: base}
	rule := bfc.SplitRule{}
	if h.Exact == 0 {
		rule = bfc.SplitRule{TensorFlow: true, FragmentationFraction: h.Fraction}
	}
	sub := suballoc.NewRegions(dev, suballoc.Options{LimitBytes: h.Limit, Growth: h.Growth != 0})
	a, err := bfc.New(sub, bfc.Options{Split: rule, GarbageCollect: h.Collect != 0})
	if err != nil {
		return nil, err
	}
	blocks := map[uint32]uint64{}
	records := make([]record, len(slots))
	for i, slot := range slots {
		var addr uint64
		switch {
		case slot == clearStats:
			a.ClearStats()
		case sizes[i] > 0:
			block, err := a.Allocate(sizes[i])
			var full *bfc.OutOfMemory
			if err != nil && !errors.As(err, &full) {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
			addr = block.Addr
			if addr != 0 {
				blocks[slot] = addr
			}
		default:
			if err := a.Free(blocks[slot]); err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
			delete(blocks, slot)
		}
		s := a.Stats()
		records[i] = record{addr, s.BytesInUse, s.PeakBytesInUse, s.BytesReserved, uint64(s.NumAllocs),
			s.LargestAllocSize, dev.calls}
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	return records, a.Close()
}
