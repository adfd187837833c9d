package bfc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// doubling is a Mapper that returns more than requested, as TensorFlow's regions grow: 2 MiB, 4, 8 ...
type doubling struct {
	scripted
	next uint64
	maps []string
}

func (d *doubling) Range() (addr, bytes, granuleBytes uint64) { return fakedevice.Base, d.limit, 256 }

func (d *doubling) Map(addr, atLeast, atMost uint64) (bytes uint64, err error) {
	for d.next < atLeast {
		d.next *= 2
	}
	bytes = min(d.next, atMost)
	d.maps = append(d.maps, fmt.Sprintf("map %d@%#x", bytes, addr-fakedevice.Base))
	d.next *= 2
	return bytes, nil
}

func (d *doubling) Unmap(addr, bytes uint64) (from, to uint64, err error) {
	return addr, addr + bytes, nil
}

// It does not support spare memory.
func (d *doubling) Stitch(uint64, uint64) (uint64, error)   { return 0, errors.New("not here") }
func (d *doubling) Whole(addr, end uint64) (uint64, uint64) { return addr, end }
func (d *doubling) LargeBytes() uint64                      { return 1 << 63 }
func (d *doubling) Spare(uint64, uint64) error              { return errors.New("not here") }
func (d *doubling) Unspare(uint64, uint64) error            { return errors.New("not here") }
func (d *doubling) SpareBytes() uint64                      { return 0 }
func (d *doubling) EachSpare(func(addr, bytes uint64))      {}
func (d *doubling) DropSpare() error                        { return nil }

// TensorFlow's trace with a sub-allocator whose regions are joined.
func TestJoinedRegions(t *testing.T) {
	sub := &doubling{scripted: scripted{limit: 1 << 30}, next: 2 * mib}
	a := must.OK(bfc.New(sub, bfc.Options{Split: bfc.SplitRule{TensorFlow: true}}))(t)
	var blocks []bfc.Block
	for _, bytes := range []uint64{2 * mib, 2 * mib, mib} {
		blocks = append(blocks, allocate(t, a, bytes))
	}
	require.Equal(t, []string{"map 2097152@0x0", "map 4194304@0x200000"}, sub.maps)
	require.Len(t, a.MemoryMap().Regions, 1)
	for _, b := range blocks {
		require.NoError(t, a.Free(b.Addr))
	}
	require.NoError(t, a.Check())
	require.Equal(t, uint64(6291456), a.Stats().LargestFreeBlockBytes)
	b := allocate(t, a, 5242880)
	require.Equal(t, bfc.Block{Addr: fakedevice.Base, Bytes: 6291456, ID: 4}, b)
	require.NoError(t, a.Close())
}

// TestGrowthInPlace runs the sessions of testdata/growth.txt.
func TestGrowthInPlace(t *testing.T) {
	runSessions(t, "testdata/growth.txt", func(t *testing.T, _ string) func(string) string {
		device := fakedevice.NewVirtual(1 << 40)
		v := must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: 8 * 2 * mib}))(t)
		a := must.OK(bfc.New(v, bfc.Options{}))(t)
		t.Cleanup(func() {
			require.NoError(t, a.Close())
			require.NoError(t, v.Close())
			require.NoError(t, device.Clean())
		})
		blocks, names := map[string]bfc.Block{}, map[uint64]string{}
		return func(line string) string {
			step, _, _ := strings.Cut(line, " :")
			var name string
			var n uint64
			switch {
			case scan(step, "alloc %s %d", &name, &n):
				blocks[name] = allocate(t, a, n*2*mib)
				names[blocks[name].ID] = name
			case scan(step, "free %s", &name):
				require.NoError(t, a.Free(blocks[name].Addr))
			case step == "trim":
				before := a.Stats().BytesReserved
				bytes := must.OK(a.Trim())(t)
				require.Equal(t, before-bytes, a.Stats().BytesReserved)
			default:
				require.Fail(t, "no step", "%q", line)
			}
			require.NoError(t, a.Check())
			require.NoError(t, v.Check())
			require.Equal(t, device.LiveBytes, a.Stats().BytesReserved)
			return strings.TrimRight(step+" : "+picture(a, names), " ")
		}
	})
}

// picture draws regions as words, a letter for each granule.
func picture(a *bfc.Allocator, names map[uint64]string) string {
	var regions []string
	for _, r := range a.MemoryMap().Regions {
		text := ""
		for _, c := range r.Chunks {
			name := "."
			if !c.Free {
				name = names[c.ID]
			}
			text += strings.Repeat(name, int(c.Bytes/(2*mib)))
		}
		regions = append(regions, text)
	}
	return strings.Join(regions, " ")
}

// A pool whose idle memory is fragmented moves it together before it fails. If the device refuses that and the pool may
// collect, the pool releases the memory and reserves it again.
func TestScatteredGranulesServeALargeBlock(t *testing.T) {
	for name, refused := range map[string]string{"moved": "", "one move fails": "map"} {
		t.Run(name, func(t *testing.T) {
			device := fakedevice.NewVirtual(1 << 40)
			v := must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: 16 * mib}))(t)
			a := must.OK(bfc.New(v, bfc.Options{GarbageCollect: refused != ""}))(t)
			var blocks []bfc.Block
			for range 8 {
				blocks = append(blocks, allocate(t, a, 2*mib))
			}
			for i := 0; i < 8; i += 2 {
				require.NoError(t, a.Free(blocks[i].Addr))
			}
			device.FailOp = func(op string) error {
				if op == refused {
					refused = ""
					return fakedevice.ErrInjected
				}
				return nil
			}
			b := allocate(t, a, 8*mib)
			device.Write(b.Addr, b.Bytes, 1)
			require.NoError(t, a.Check())
			require.Equal(t, uint64(16*mib), device.PeakBytes)
			require.NoError(t, a.Close())
			require.NoError(t, v.Close())
		})
	}
}

// If the device refuses what a pool would need to grow in place, the pool is full, even if the whole request exceeds
// what the limit has left.
func TestDeviceFullWhenGrowingInPlace(t *testing.T) {
	v := must.OK(suballoc.NewVirtual(fakedevice.NewVirtual(6*mib), suballoc.VirtualOptions{LimitBytes: 8 * mib}))(t)
	a := must.OK(bfc.New(v, bfc.Options{}))(t)
	require.NoError(t, a.Free(allocate(t, a, 4*mib).Addr))
	for bytes, cause := range map[uint64]bfc.Cause{8 * mib: bfc.DeviceFull, 9 * mib: bfc.TooLarge} {
		_, err := a.Allocate(bytes)
		var oom *bfc.OutOfMemory
		require.ErrorAs(t, err, &oom)
		require.Equal(t, cause, oom.Cause)
	}
	allocate(t, a, 6*mib)
	require.NoError(t, a.Close())
	require.NoError(t, v.Close())
}

// badMapper violates its contract.
type badMapper struct {
	*suballoc.Virtual
	rangeAddr, rangeBytes, granule uint64
	mapped                         func(bytes uint64) uint64
	unmapped                       func(from, to uint64) (uint64, uint64)
	extended                       uint64
	gone                           [][2]uint64
}

func (m *badMapper) Range() (addr, bytes, granuleBytes uint64) {
	return m.rangeAddr, m.rangeBytes, m.granule
}
func (m *badMapper) Map(_, atLeast, _ uint64) (uint64, error) { return m.mapped(atLeast), nil }

func (m *badMapper) Unmap(addr, bytes uint64) (from, to uint64, err error) {
	m.gone = append(m.gone, [2]uint64{addr, bytes})
	if m.unmapped == nil {
		return 0, 0, errors.New("refused")
	}
	from, to = m.unmapped(addr, addr+bytes)
	return from, to, nil
}

func (m *badMapper) Extend(uint64) (addr, bytes uint64, err error) { return m.extended, 8192, nil }

func (m *badMapper) Release(addr, bytes uint64) error {
	m.gone = append(m.gone, [2]uint64{addr, bytes})
	return nil
}

func TestMapperThatBreaksItsPromise(t *testing.T) {
	limit := must.OK(suballoc.NewVirtual(fakedevice.NewVirtual(1<<40), suballoc.VirtualOptions{LimitBytes: mib}))(t)
	const base, granule = uint64(fakedevice.Base), uint64(4096)
	good := badMapper{Virtual: limit, rangeAddr: base, rangeBytes: 16 * granule, granule: granule}
	t.Run("a range that cannot be", func(t *testing.T) {
		for name, change := range map[string]func(*badMapper){
			"no granule":            func(m *badMapper) { m.granule = 0 },
			"a crooked granule":     func(m *badMapper) { m.granule = 1000 },
			"a crooked address":     func(m *badMapper) { m.rangeAddr += 256 },
			"a crooked size":        func(m *badMapper) { m.rangeBytes += 256 },
			"at address 0":          func(m *badMapper) { m.rangeAddr = 0 },
			"beyond all addresses":  func(m *badMapper) { m.rangeAddr = 1<<64 - 8*4096 },
			"smaller than its unit": func(m *badMapper) { m.rangeBytes = 256 },
		} {
			m := good
			change(&m)
			require.Equal(t, status.InvalidArgument, status.CodeOf(must.Err(bfc.New(&m, bfc.Options{}))), name)
		}
	})
	t.Run("memory that cannot be", func(t *testing.T) {
		for name, mapped := range map[string]func(uint64) uint64{
			"too little":          func(uint64) uint64 { return granule },
			"too much":            func(uint64) uint64 { return 17 * granule },
			"no whole granules":   func(bytes uint64) uint64 { return bytes/granule*granule + granule + 256 },
			"more than the limit": func(uint64) uint64 { return 2 * mib },
			"nothing":             func(uint64) uint64 { return 0 },
		} {
			m := good
			m.mapped = mapped
			a := must.OK(bfc.New(&m, bfc.Options{}))(t)
			require.ErrorContains(t, must.Err(a.Allocate(granule+1)), "unusable", name)
			require.NoError(t, a.Check())
			require.Zero(t, a.Stats().BytesReserved)
			require.Len(t, m.gone, 1)
			require.NoError(t, a.Close())
		}
	})
	t.Run("a region in the range", func(t *testing.T) {
		m := good
		m.rangeBytes, m.extended = granule, base
		a := must.OK(bfc.New(&m, bfc.Options{}))(t)
		require.ErrorContains(t, must.Err(a.Allocate(granule+256)), "unusable")
		require.NoError(t, a.Close())
	})
	t.Run("a part that was not offered", func(t *testing.T) {
		m := good
		m.mapped = func(bytes uint64) uint64 { return (bytes + granule - 1) / granule * granule }
		a := must.OK(bfc.New(&m, bfc.Options{}))(t)
		b := allocate(t, a, 4*granule)
		require.NoError(t, a.Free(b.Addr))
		for name, unmapped := range map[string]func(from, to uint64) (uint64, uint64){
			"below":  func(from, to uint64) (uint64, uint64) { return from - granule, to },
			"above":  func(from, to uint64) (uint64, uint64) { return from, to + granule },
			"refuse": nil,
		} {
			m.unmapped = unmapped
			bytes, err := a.Trim()
			require.Error(t, err, name)
			require.Zero(t, bytes)
			require.NoError(t, a.Check())
		}
		require.NoError(t, a.Close())
	})
}

// A process with a limit on address space (ulimit -v) gets shorter tables. When they are full, allocations fail with an
// error that says so, and everything else keeps working.
func TestLittleAddressSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	if os.Getenv("BFC_LITTLE_ADDRESS_SPACE") != "" {
		fillTables(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestLittleAddressSpace$")
	child.Env = append(os.Environ(), "BFC_LITTLE_ADDRESS_SPACE=1", "GOGC=off")
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func fillTables(t *testing.T) {
	sub := suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 1 << 40})
	a, lift := newAllocatorInLittle(t, sub)
	blocks := make([]bfc.Block, 0, 100)
	for {
		block, err := a.Allocate(1)
		if err != nil {
			lift() // the rest of the test needs no limit
			must.Fail(t, status.ResourceExhausted, err, "host is out of memory")
			break
		}
		if len(blocks) < cap(blocks) {
			blocks = append(blocks, block)
		}
	}
	require.Len(t, blocks, cap(blocks))
	require.NoError(t, a.Check())
	for _, b := range blocks {
		require.NoError(t, a.FreeID(b.Addr, b.ID))
	}
	require.NoError(t, a.Check())
	allocate(t, a, 256) // the freed blocks were adjacent, so their records are available again
}

// newAllocatorInLittle returns an allocator that was made with little address space, which stays little until lift is
// called. Go's runtime must not need any of it: a heap that cannot grow ends the process, and it grows by up to 64 MiB.
// So the heap gets free pages before. A thread that Go starts takes some address space, and then the allocator cannot
// be made: it gets more.
func newAllocatorInLittle(t *testing.T, sub bfc.SubAllocator) (a *bfc.Allocator, lift func()) {
	runtime.KeepAlive(make([]byte, 16<<20))
	runtime.GC()
	for spare := uint64(64 << 20); ; spare *= 2 {
		lift = limitAddressSpace(t, spare)
		a, err := bfc.New(sub, bfc.Options{})
		if err == nil {
			t.Cleanup(func() { require.NoError(t, a.Close()) })
			lift()
			return a, limitAddressSpace(t, spare) // for threads: the tables stay as short as they are
		}
		lift()
		require.Less(t, spare, uint64(1<<30), "%v", err)
	}
}

// limitAddressSpace leaves the process spare bytes beyond what it has mapped, until lift is called.
func limitAddressSpace(t *testing.T, spare uint64) (lift func()) {
	statm := must.OK(os.ReadFile("/proc/self/statm"))(t)
	var pages uint64
	must.OK(fmt.Sscan(string(statm), &pages))(t)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &before))
	low := unix.Rlimit{Cur: pages*uint64(os.Getpagesize()) + spare, Max: before.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &low))
	return func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &before)) }
}
