package bfc_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// The traces below were taken from TensorFlow's allocator. Each line is a step with its expected effects:
//
//	NAME = alloc N : @ADDRESS SIZE : calls of the device
//	alloc N : null : calls of the device
//	free NAME : calls of the device
//	want FIGURE VALUE ...
//
// Addresses are relative to the first region. Regions are 2 MiB apart. Calls that are not listed must not happen.
// "free" as a figure is the list of free chunks, ADDRESS/SIZE. x marks a refused map.
type golden struct {
	name      string
	limit     uint64
	growth    bool
	device    uint64 // bytes; 0: unlimited
	noGC      bool
	fraction  float64
	wantTrace string
}

var goldens = []golden{
	{name: "A1 growth doubles, large chunks stay whole", limit: 1 << 30, growth: true, wantTrace: `
		alloc 1         : @0x0 256                 : map 2097152@0x0
		alloc 256       : @0x100 256               :
		alloc 257       : @0x200 512               :
		alloc 1048576   : @0x400 2096128           :
		want in_use 2097152 curr 4194304 pool 2097152 n 4
		alloc 1048576   : @0x400000 1048576        : map 4194304@0x400000
		want curr 8388608
		alloc 3145728   : @0x500000 3145728        :
		alloc 20971520  : @0xa00000 33554432       : map 33554432@0xa00000
		want curr 33554432
		alloc 1048576   : @0x2c00000 1048576       : map 33554432@0x2c00000
		want curr 67108864
		alloc 104857600 : @0x4e00000 134217728     : map 134217728@0x4e00000
		want curr 134217728
		alloc 629145600 : @0xd000000 629145600     : map 866123776@0xd000000
		want curr 1073741824 pool 1073741824
		alloc 314572800 : null                     :
		want free 0x2d00000/32505856,0x32800000/236978176 largest_free 236978176 in_use 804257792 n 10 peak 804257792 largest 629145600 pool 1073741824 peak_pool 1073741824
	`},
	{name: "A2 limit that is no multiple of 256", limit: 1000000, wantTrace: `
		want curr 1000192 pool 0
		a = alloc 1  : @0x0 256 : map 999936@0x0
		want curr 2000384 pool 999936 free 0x100/999680
		alloc 999936 : null :
		free a :
		alloc 999936 : @0x0 999936 :
		alloc 1      : null :
		alloc 0      : zero :
		want in_use 999936 n 2 largest 999936 free -
	`},
	{name: "A3 split at a rest of exactly 128 MiB", limit: 1 << 30, wantTrace: `
		a = alloc 734003200 : @0x0 734003200 : map 1073741824@0x0
		want free 0x2bc00000/339738624
		alloc 314572800 : @0x2bc00000 339738624 :
		free a :
		b = alloc 629145600 : @0x0 734003200 :
		free b :
		c = alloc 599785473 : @0x0 734003200 :
		free c :
		alloc 599785472 : @0x0 599785472 :
		want free 0x23c00000/134217728 in_use 939524096 n 5 peak 1073741824 largest 734003200
	`},
	{name: "A4 split at twice the request", limit: 4096, wantTrace: `
		a = alloc 4096 : @0x0 4096 : map 4096@0x0
		free a :
		b = alloc 2048 : @0x0 2048 :
		free b :
		c = alloc 2049 : @0x0 4096 :
		free c :
		alloc 1793 : @0x0 2048 :
		want free 0x800/2048 in_use 2048 n 4
	`},
	{name: "A5 coalescing in any order, and reuse", limit: 1 << 20, wantTrace: `
		a = alloc 1000 : @0x0 1024    : map 1048576@0x0
		b = alloc 2000 : @0x400 2048  :
		c = alloc 3000 : @0xc00 3072  :
		d = alloc 4000 : @0x1800 4096 :
		e = alloc 5000 : @0x2800 5120 :
		f = alloc 6000 : @0x3c00 6144 :
		want free 0x5400/1027072 in_use 21504
		free b :
		want free 0x400/2048,0x5400/1027072
		free d :
		want free 0x400/2048,0x1800/4096,0x5400/1027072
		free c :
		want free 0x400/9216,0x5400/1027072
		g = alloc 2000 : @0x400 2048 :
		want free 0xc00/7168,0x5400/1027072
		free a :
		free e :
		free f :
		free g :
		want free 0x0/1048576 in_use 0 n 7 peak 21504 largest 6144
	`},
	{name: "A6 ties go to the lowest address", limit: 65536, wantTrace: `
		a = alloc 1024 : @0x0 1024 : map 65536@0x0
		b = alloc 1024 : @0x400 1024 :
		c = alloc 1024 : @0x800 1024 :
		d = alloc 1024 : @0xc00 1024 :
		e = alloc 1024 : @0x1000 1024 :
		f = alloc 1024 : @0x1400 1024 :
		g = alloc 1024 : @0x1800 1024 :
		h = alloc 1024 : @0x1c00 1024 :
		free b :
		free f :
		free d :
		alloc 1024 : @0x400 1024 :
		alloc 700  : @0xc00 1024 :
		alloc 1024 : @0x1400 1024 :
		want free 0x2000/57344 in_use 8192 n 11
	`},
	{name: "A7 back-off of the whole limit", limit: 1 << 30, device: 100 << 20, wantTrace: `
		alloc 1000 : @0x0 1024 : map x 1073741824 966367744 869731072 782758144 704482304 634034176 570630912 513568000 462211328 415990272 374391296 336952320 303257088 272931584 245638656 221074944 198967552 179070976 161164032 145047808 130543104 117488896 105740032 map 95166208@0x0
		want curr 2147483648 pool 95166208
		alloc 52428800 : @0x400 95165184 :
		alloc 62914560 : null : map x 978575616 880718080 792646400 713381888 642043904 577839616 520055808 468050432 421245440 379120896 341208832 307088128 276379392 248741632 223867648 201480960 181332992 163199744 146880000 132192000 118972928 107075840 96368384 86731776 78058752 70253056 63227904
		want curr 2147483648 pool 95166208 in_use 95166208 n 2
	`},
	{name: "A8 back-off while growing", limit: 1 << 30, growth: true, device: 10 << 20, wantTrace: `
		alloc 2097152 : @0x0 2097152 : map 2097152@0x0
		alloc 2097152 : @0x400000 2097152 : map 4194304@0x400000
		alloc 2097152 : @0x600000 2097152 :
		want curr 8388608
		alloc 2097152 : @0xa00000 4012800 : map x 8388608 7549952 6795008 6115584 5504256 4953856 4458496 map 4012800@0xa00000
		want curr 16777216
		alloc 2097152 : null : map x 16777216 15099648 13589760 12230912 11008000 9907200 8916480 8024832 7222528 6500352 5850368 5265408 4739072 4265216 3838720 3454976 3109632 2798848 2519040 2267136
		want curr 16777216 pool 10304256 in_use 10304256 n 4
	`},
	{name: "A9 idle regions become one larger region", limit: 31457280, growth: true, wantTrace: `
		a = alloc 2097152  : @0x0 2097152 : map 2097152@0x0
		b = alloc 4194304  : @0x400000 4194304 : map 4194304@0x400000
		c = alloc 8388608  : @0xa00000 8388608 : map 8388608@0xa00000
		d = alloc 16777216 : @0x1400000 16777216 : map 16777216@0x1400000
		want pool 31457280 curr 33554432
		free a :
		free b :
		free c :
		free d :
		want free 0x0/2097152,0x400000/4194304,0xa00000/8388608,0x1400000/16777216
		alloc 20971520 : @0x2600000 31457280 : unmap 2097152@0x0 unmap 4194304@0x400000 unmap 8388608@0xa00000 unmap 16777216@0x1400000 map 31457280@0x2600000
		want curr 67108864 pool 31457280 peak_pool 31457280 in_use 31457280 n 5
	`},
	{name: "A9 without giving regions back", limit: 31457280, growth: true, noGC: true, wantTrace: `
		a = alloc 2097152  : @0x0 2097152 : map 2097152@0x0
		b = alloc 4194304  : @0x400000 4194304 : map 4194304@0x400000
		c = alloc 8388608  : @0xa00000 8388608 : map 8388608@0xa00000
		d = alloc 16777216 : @0x1400000 16777216 : map 16777216@0x1400000
		free a :
		free b :
		free c :
		free d :
		alloc 20971520 : null :
		want curr 33554432 pool 31457280 in_use 0 n 4
	`},
	{name: "A10 only idle regions go", limit: 31457280, growth: true, wantTrace: `
		a = alloc 2097152  : @0x0 2097152 : map 2097152@0x0
		b = alloc 4194304  : @0x400000 4194304 : map 4194304@0x400000
		c = alloc 8388608  : @0xa00000 8388608 : map 8388608@0xa00000
		d = alloc 16777216 : @0x1400000 16777216 : map 16777216@0x1400000
		free b :
		free c :
		alloc 12582912 : @0x2600000 12582912 : unmap 4194304@0x400000 unmap 8388608@0xa00000 map 12582912@0x2600000
		want pool 31457280
		alloc 1 : null :
		want in_use 31457280 n 5
	`},
	{name: "A11 slack as a fraction of the limit", limit: 1 << 30, fraction: 0.05, wantTrace: `
		a = alloc 1027604480 : @0x0 1073741824 : map 1073741824@0x0
		free a :
		alloc 1017118720 : @0x0 1017118720 :
		want free 0x3ca00000/56623104
	`},
	{name: "A14 limit below the first growth step", limit: 1 << 20, growth: true, wantTrace: `
		want curr 1048576
		alloc 1 : @0x0 256 : map 1048576@0x0
		want curr 2097152 pool 1048576
	`},
	{name: "A14 limit 0", limit: 0, wantTrace: `
		alloc 1 : null :
		want curr 0 pool 0 n 0
	`},
	{name: "A14 limit 0, growth", limit: 0, growth: true, wantTrace: `
		alloc 1 : null :
		want curr 0 pool 0 n 0
	`},
	{name: "A14 limit 100", limit: 100, wantTrace: `
		alloc 1 : null :
		want pool 0 n 0
	`},
	{name: "A14 limit 511", limit: 511, wantTrace: `
		alloc 1 : @0x0 256 : map 256@0x0
		alloc 1 : null :
		want pool 256 in_use 256
	`},
	{name: "A15 the last region is the rest of the limit", limit: 10 << 20, growth: true, wantTrace: `
		alloc 1048576 : @0x0 1048576 : map 2097152@0x0
		alloc 7340032 : @0x400000 8388608 : map 8388608@0x400000
		alloc 1048576 : @0x100000 1048576 :
		alloc 256     : null :
		want in_use 10485760 pool 10485760 n 3
	`},
	{name: "A15 the first request is the limit", limit: 10 << 20, growth: true, wantTrace: `
		a = alloc 10485760 : @0x0 10485760 : map 10485760@0x0
		want curr 16777216
		alloc 10485761 : null :
		free a :
		alloc 9437184  : @0x0 10485760 :
		want n 2
	`},
	{name: "no room for 2 MiB beside 256 bytes", limit: 2 << 20, wantTrace: `
		alloc 256     : @0x0 256 : map 2097152@0x0
		alloc 2097152 : null :
	`},
}

func TestGoldenTraces(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) { newGoldenRun(t, g).play() })
	}
}

type goldenRun struct {
	t       *testing.T
	golden  golden
	device  *fakedevice.Device
	regions *suballoc.Regions
	a       *bfc.Allocator
	blocks  map[string]bfc.Block
}

func newGoldenRun(t *testing.T, g golden) *goldenRun {
	capacity := g.device
	if capacity == 0 {
		capacity = 1 << 40
	}
	r := &goldenRun{t: t, golden: g, device: fakedevice.New(capacity), blocks: map[string]bfc.Block{}}
	r.regions = suballoc.NewRegions(r.device, suballoc.Options{LimitBytes: g.limit, Growth: g.growth})
	r.a = newAllocator(t, r.regions, bfc.Options{
		Split:          bfc.SplitRule{TensorFlow: true, FragmentationFraction: g.fraction},
		GarbageCollect: !g.noGC,
	})
	return r
}

func (r *goldenRun) play() {
	for line := range strings.SplitSeq(strings.TrimSpace(r.golden.wantTrace), "\n") {
		line = strings.TrimSpace(line)
		r.step(line)
		require.NoError(r.t, r.a.Check(), line)
	}
}

func (r *goldenRun) step(line string) {
	head, rest, _ := strings.Cut(line, ":")
	words := strings.Fields(head)
	name := ""
	if len(words) > 2 && words[1] == "=" {
		name, words = words[0], words[2:]
	}
	switch words[0] {
	case "alloc":
		result, calls, _ := strings.Cut(rest, ":")
		r.alloc(line, name, words[1], strings.TrimSpace(result))
		r.calls(line, calls)
	case "free":
		require.NoError(r.t, r.a.Free(r.blocks[words[1]].Addr), line)
		r.calls(line, rest)
	case "want":
		for i := 1; i+1 < len(words); i += 2 {
			require.Equal(r.t, words[i+1], r.figure(words[i]), "%s: %s", line, words[i])
		}
	default:
		r.t.Fatalf("cannot read %q", line)
	}
}

func (r *goldenRun) alloc(line, name, size, want string) {
	n := must.OK(strconv.ParseUint(size, 10, 64))(r.t, line)
	before := r.a.Stats()
	block, err := r.a.Allocate(n)
	switch want {
	case "null":
		require.Error(r.t, err, line)
		require.ErrorContains(r.t, err, " out of memory")
		after := r.a.Stats()
		require.Equal(r.t, [3]uint64{before.NumAllocs, before.BytesInUse, before.PeakBytesInUse},
			[3]uint64{after.NumAllocs, after.BytesInUse, after.PeakBytesInUse}, line)
	case "zero":
		require.NoError(r.t, err, line)
		require.Equal(r.t, bfc.Block{}, block, line)
		require.Equal(r.t, before, r.a.Stats(), line)
	default:
		require.NoError(r.t, err, line)
		require.Equal(r.t, want, fmt.Sprintf("@%#x %d", block.Addr-fakedevice.Base, block.Bytes), line)
		r.blocks[name] = block
	}
}

// calls compares the device's calls; "map x 1 2 3" is short for three refused ones.
func (r *goldenRun) calls(line, want string) {
	wanted := []string{}
	op := ""
	for word := range strings.FieldsSeq(want) {
		switch {
		case word == "map" || word == "unmap":
			op = word
		case word == "x":
			op = "map x"
		case op == "map x":
			wanted = append(wanted, "map "+word+" refused")
		default:
			wanted = append(wanted, op+" "+word)
		}
	}
	require.Equal(r.t, wanted, r.device.TakeCalls(), line)
}

func (r *goldenRun) figure(name string) string {
	s := r.a.Stats()
	figures := map[string]uint64{
		"in_use": s.BytesInUse, "peak": s.PeakBytesInUse, "n": s.NumAllocs, "largest": s.LargestAllocSize,
		"pool": s.BytesReserved, "peak_pool": s.PeakBytesReserved, "curr": r.regions.NextRegionBytes(),
		"largest_free": s.LargestFreeBlockBytes,
	}
	if name == "free" {
		return freeChunks(r.a)
	}
	value, known := figures[name]
	require.True(r.t, known, name)
	return fmt.Sprint(value)
}

// freeChunks formats the free chunks as ADDRESS/SIZE, with addresses relative to the first region; "-" without any.
func freeChunks(a *bfc.Allocator) string {
	var texts []string
	for _, region := range a.MemoryMap().Regions {
		for _, chunk := range region.Chunks {
			if chunk.Free {
				texts = append(texts, fmt.Sprintf("%#x/%d", chunk.Addr-fakedevice.Base, chunk.Bytes))
			}
		}
	}
	if texts == nil {
		return "-"
	}
	return strings.Join(texts, ",")
}

// newAllocator returns an allocator that is closed at the end of the test.
func newAllocator(t testing.TB, sub bfc.SubAllocator, opts bfc.Options) *bfc.Allocator {
	a := must.OK(bfc.New(sub, opts))(t)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// outOfMemory asserts that err is an OutOfMemory and returns it.
func outOfMemory(t testing.TB, err error) *bfc.OutOfMemory {
	var oom *bfc.OutOfMemory
	require.True(t, errors.As(err, &oom), "%v", err)
	return oom
}
