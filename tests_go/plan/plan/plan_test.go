package plan_test

import (
	"context"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/plan/caching"
	"gpuconf/gocore/plan/plan"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
	"gpuconf/tests_go/pool/traces"
)

const (
	mib = uint64(1) << 20
	gib = uint64(1) << 30
)

// finish runs a job to its end.
func finish(t require.TestingT, events []trace.Event, request plan.Request) *plan.Job {
	if request.Policies == nil {
		request.Policies = plan.Policies()
	}
	job := must.OK(plan.New(context.Background(), events, request))(t)
	for number := range job.Len() {
		require.NoError(t, job.Determine(context.Background(), number))
	}
	return job
}

// one returns the result of a job about one GPU under one policy.
func one(t require.TestingT, events []trace.Event, policy plan.Policy, limit uint64, card plan.Card) *plan.Result {
	results := finish(t, events, plan.Request{LimitBytes: limit, Card: card, Policies: []plan.Policy{policy}}).Results()
	require.Len(t, results, 1)
	return results[0]
}

// script returns events: a positive number allocates so many bytes at the next address, -n frees the nth allocation.
func script(steps ...int64) (events []trace.Event) {
	var sizes []uint64
	for i, step := range steps {
		e := trace.Event{Micros: int64(i)}
		if step > 0 {
			sizes = append(sizes, uint64(step))
			e.Action, e.Addr, e.Bytes = trace.Allocate, uint64(len(sizes)), uint64(step)
		} else {
			e.Action, e.Addr, e.Bytes = trace.Free, uint64(-step), sizes[-step-1]
		}
		events = append(events, e)
	}
	return events
}

func eventsOf(t traces.Trace) (events []trace.Event) {
	sizes := make([]uint64, t.Blocks)
	for _, op := range t.Ops {
		if op.Bytes > 0 {
			sizes[op.Block] = op.Bytes
			events = append(events, trace.Event{Action: trace.Allocate, Addr: 1 + uint64(op.Block), Bytes: op.Bytes})
		} else {
			events = append(events, trace.Event{Action: trace.Free, Addr: 1 + uint64(op.Block), Bytes: sizes[op.Block]})
		}
	}
	return events
}

// The differences between the policies, on the smallest jobs that show them.
func TestPolicies(t *testing.T) {
	const m = int64(mib)
	for _, row := range []struct {
		name   string
		events []trace.Event
		limit  uint64
		fits   map[plan.Policy]bool
		causes map[plan.Policy]string
		least  map[plan.Policy]uint64 // MiB
	}{
		{"the whole limit at once", script(4 * m), 4 * mib,
			map[plan.Policy]bool{"tensorflow": true, "regions": true, "virtual": true}, nil,
			map[plan.Policy]uint64{"tensorflow": 4, "regions": 4, "virtual": 4}},
		{"more than the limit", script(4 * m), 3 * mib,
			map[plan.Policy]bool{"tensorflow": false, "regions": false, "virtual": false},
			map[plan.Policy]string{"tensorflow": "too large", "regions": "too large", "virtual": "too large"},
			map[plan.Policy]uint64{"tensorflow": 4, "regions": 4, "virtual": 4}},
		// TensorFlow uses a freed block of 5 MiB whole for a request of 3: a split needs twice the request. It splits
		// one of 6. An empty virtual pool starts with whole granules again: 4 MiB, and 1 beside them.
		{"a piece that TensorFlow does not split", script(5*m, -1, 3*m, 2*m), 5 * mib,
			map[plan.Policy]bool{"tensorflow": false, "regions": true, "virtual": false},
			map[plan.Policy]string{"tensorflow": "limit reached", "virtual": "fragmented"},
			map[plan.Policy]uint64{"tensorflow": 6, "regions": 5, "virtual": 6}},
		// Two holes of 2 MiB around a live block are not one of 4. But their memory can be unmapped, and mapped
		// elsewhere.
		{"a hole too small", script(2*m, 2*m, 2*m, -1, -3, 4*m), 6 * mib,
			map[plan.Policy]bool{"tensorflow": false, "regions": false, "virtual": true},
			map[plan.Policy]string{"tensorflow": "fragmented", "regions": "fragmented"},
			map[plan.Policy]uint64{"regions": 8, "virtual": 6}},
		// Memory in its own region cannot join later memory, unless it is idle and released.
		{"idle regions go back", script(2*m, 6*m, -2, -1, 8*m), 8 * mib,
			map[plan.Policy]bool{"tensorflow": true, "regions": true, "virtual": true}, nil,
			map[plan.Policy]uint64{"tensorflow": 8, "regions": 8, "virtual": 8}},
		{"nothing", nil, mib, nil, nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, r := range finish(t, row.events, plan.Request{LimitBytes: row.limit}).Results() {
				t.Run(string(r.Policy), func(t *testing.T) {
					require.Equal(t, row.fits[r.Policy], *r.Fits)
					if *r.Fits {
						require.Nil(t, r.Failure)
					} else if want := row.causes[r.Policy]; want != "" {
						require.Equal(t, want, r.Failure.Cause)
					}
					if want := row.least[r.Policy]; want > 0 {
						require.Equal(t, want*mib, r.LeastLimit)
					}
				})
			}
		})
	}
}

// The search for max_split_size_mb tries every value below the largest block. Here a block of 88 MiB that is split
// serves 70 and 18 MiB; a value of 64 or less keeps it whole.
func TestTheBestMaxSplitSizeIsFound(t *testing.T) {
	const m = int64(mib)
	r := one(t, script(88*m, -1, 70*m, 18*m), plan.PyTorchMaxSplit, 0, plan.Card{})
	require.Equal(t, "max_split_size_mb:128", r.Settings)
	require.Equal(t, 88*mib, r.LeastLimit)
}

func TestWhatIsToldOfAJob(t *testing.T) {
	const m = int64(mib)
	events := script(2*m, 2*m, 2*m, -1, -3, 4*m)
	t.Run("that fits", func(t *testing.T) {
		r := one(t, events, plan.Regions, 16*mib, plan.Card{})
		require.True(t, *r.Fits)
		require.Equal(t, 8*mib, r.LeastLimit)
		require.Equal(t, 16*mib, r.Measure.Limit)
		require.Equal(t, 6*mib, r.Measure.PeakInUse)
		require.Equal(t, 16*mib, r.Measure.PeakReserved)
		require.Zero(t, r.Measure.Fragmentation, "when most was in use, the rest was one piece")
		require.Len(t, r.Measure.Timeline, len(events))
		require.Equal(t, plan.Point{Micros: 4, InUse: 2 * mib, Reserved: 16 * mib}, r.Measure.Timeline[4])
	})
	t.Run("that does not", func(t *testing.T) {
		r := one(t, events, plan.Regions, 7*mib, plan.Card{})
		require.False(t, *r.Fits)
		require.Equal(t, &plan.Failure{Event: 6, Micros: 5, Requested: 4 * mib, Cause: "fragmented", InUse: 2 * mib,
			Reserved:    7 * mib,
			LargestFree: 3 * mib}, r.Failure)
		require.Equal(t, r.LeastLimit, r.Measure.Limit, "the report is of a run that completed")
		require.Equal(t, 6*mib, r.Measure.PeakInUse)
	})
	t.Run("without a limit", func(t *testing.T) {
		r := one(t, events, plan.Virtual, 0, plan.Card{})
		require.Nil(t, r.Fits)
		require.Nil(t, r.Failure)
		require.Equal(t, 6*mib, r.LeastLimit)
		require.Equal(t, r.LeastLimit, r.Measure.Limit)
	})
	t.Run("with pieces at its peak", func(t *testing.T) {
		// 2 MiB free between live blocks, and 2 of 8 behind them when 6 are in use: half of the free memory is in the
		// largest piece.
		r := one(t, script(2*m, 2*m, 2*m, -2, 3*m, m, -4), plan.Regions, 12*mib, plan.Card{})
		require.Equal(t, 8*mib, r.Measure.PeakInUse)
		require.InDelta(t, 1-3.0/4, r.Measure.Fragmentation, 1e-9)
	})
}

func TestTheCardIsFull(t *testing.T) {
	events := script(int64(3 * mib))
	r := one(t, events, plan.Virtual, 8*mib, plan.Card{MemoryBytes: 2 * mib})
	require.False(t, *r.Fits)
	require.Equal(t, "device full", r.Failure.Cause)
	require.Equal(t, 3*mib, r.LeastLimit, "the least limit is the job's, not the card's")

	// TensorFlow requests nine tenths repeatedly until the card has enough.
	r = one(t, events, plan.Regions, 8*mib, plan.Card{MemoryBytes: 4 * mib})
	require.True(t, *r.Fits)
	require.Equal(t, 8*mib, r.Measure.Limit)
	require.Less(t, r.Measure.PeakReserved, 4*mib)
}

func TestGranulesOfTheCard(t *testing.T) {
	r := one(t, script(1000), plan.Virtual, 64*mib, plan.Card{GranuleBytes: 16 * mib})
	require.Equal(t, 16*mib, r.Measure.PeakReserved)
}

func TestUsage(t *testing.T) {
	events := []trace.Event{
		{Action: trace.Free, Addr: 9, Bytes: 300},                        // was live before
		{Action: trace.Allocate, Addr: 1, Bytes: 1},                      // 256
		{Action: trace.Allocate, Addr: 2, Bytes: 257, Stream: 7},         // 512
		{Action: trace.AllocateFailure, Bytes: 1 << 40},                  // has no effect
		{Action: trace.Allocate, Addr: 2, Bytes: 600, GPU: 3},            // on another GPU
		{Action: trace.Allocate, Addr: 1, Bytes: 100},                    // its free is missing
		{Action: trace.Allocate, Addr: 5}, {Action: trace.Free, Addr: 5}, // of size 0
		{Action: trace.SegmentAlloc, Addr: 1, Bytes: 1 << 30, GPU: 2}, // not a block
		{Action: trace.Free, Addr: 2, Bytes: 257},
	}
	job := finish(t, events, plan.Request{LimitBytes: mib})
	require.Equal(t, []plan.Usage{
		{
			GPU: 0, Allocs: 3, PeakLive: 768, PeakAsk: 258, BytesBefore: 512, Before: 1, Live: 1, Failures: 1,
			Unfreed: 1, Streams: 2,
			Holdings: []plan.Holding{{Bytes: 768, Blocks: 2}},
		},
		{GPU: 3, Allocs: 1, PeakLive: 768, PeakAsk: 600, Live: 1, Streams: 1,
			Holdings: []plan.Holding{{Bytes: 768, Blocks: 1}}},
	}, job.Usages())
	require.Len(t, job.Results(), 2*len(plan.Policies()))

	failed := one(t, events[:1], plan.Regions, 256, plan.Card{})
	require.Equal(t, 0, failed.Failure.Event, "before the trace began")
}

func TestHoldersAtThePeak(t *testing.T) {
	var events []trace.Event
	for i := range uint64(200) { // one block for each stack
		events = append(events, trace.Event{Action: trace.Allocate, Addr: i + 1, Bytes: 256 * (i + 1),
			Holder: uint32(i % 2), Stack: uint32(i)})
	}
	events = append(events,
		trace.Event{Action: trace.Allocate, Addr: 1000, Bytes: 1 << 20, Holder: 7},
		trace.Event{Action: trace.Free, Addr: 1000, Bytes: 1 << 20},
		trace.Event{Action: trace.Allocate, Addr: 2000, Bytes: 1 << 19, Holder: 8, Stack: 3}, // not at the peak
	)
	holdings := finish(t, events, plan.Request{}).Usages()[0].Holdings
	require.Len(t, holdings, 201)
	require.Equal(t, plan.Holding{Holder: 7, Bytes: 1 << 20, Blocks: 1}, holdings[0])
	require.Equal(t, plan.Holding{Holder: 1, Stack: 199, Bytes: 256 * 200, Blocks: 1}, holdings[1])

	same := finish(t, []trace.Event{
		{Action: trace.Allocate, Addr: 1, Bytes: 1, Holder: 1, Stack: 2}, {Action: trace.Allocate, Addr: 2, Bytes: 257,
			Holder: 1, Stack: 2},
		{Action: trace.Allocate, Addr: 3, Bytes: 1, Holder: 2, Stack: 2}, {Action: trace.Allocate, Addr: 4, Bytes: 1,
			Holder: 1, Stack: 3},
	}, plan.Request{}).Usages()[0].Holdings
	require.Equal(t, []plan.Holding{
		{Holder: 1, Stack: 2, Bytes: 768, Blocks: 2}, {Holder: 1, Stack: 3, Bytes: 256, Blocks: 1},
		{Holder: 2, Stack: 2, Bytes: 256, Blocks: 1},
	}, same)
}

func TestRequestsThatCannotBe(t *testing.T) {
	require.ErrorContains(t, must.Err(plan.New(context.Background(), nil, plan.Request{})), "no policy")
	_, err := plan.ParsePolicy("fast")
	require.EqualError(t, err,
		`unknown policy "fast": expected one of pytorch, pytorch-expandable, pytorch-max-split, pytorch-roundup, tensorflow, regions, virtual`)
	must.Fail(t, status.InvalidArgument, err)
	for _, bytes := range []uint64{4 << 40, 1<<63 - 1, 1<<64 - 1} {
		_, err = plan.New(context.Background(), []trace.Event{{Action: trace.Allocate, Addr: 1, Bytes: 1},
			{Action: trace.Allocate, Addr: 2, Bytes: bytes}},
			plan.Request{Policies: plan.Policies()})
		require.ErrorContains(t, err, "event 2: more than")
		must.Fail(t, status.InvalidArgument, err)
	}
}

// randomEvents returns a job of a few blocks of up to some MiB.
func randomEvents(t *rapid.T) []trace.Event {
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	n := rapid.IntRange(1, 120).Draw(t, "events")
	var live []trace.Event
	var events []trace.Event
	for i := range n {
		if len(live) > 0 && random.IntN(5) < 2 {
			at := random.IntN(len(live))
			e := live[at]
			e.Action = trace.Free
			events = append(events, e)
			live = append(live[:at], live[at+1:]...)
			continue
		}
		e := trace.Event{Action: trace.Allocate, Addr: uint64(i + 1), Bytes: 1 +
			random.Uint64N(1<<(8+random.Uint64N(15)))}
		live, events = append(live, e), append(events, e)
	}
	return events
}

// Under the least limit a job fits, under a MiB less it does not, and that limit is never below the peak of live bytes.
func TestLeastLimitIsMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := randomEvents(t)
		policy := rapid.SampledFrom(plan.Policies()).Draw(t, "policy")
		job := finish(t, events, plan.Request{Policies: []plan.Policy{policy}})
		least := job.Results()[0].LeastLimit
		require.GreaterOrEqual(t, least, job.Usages()[0].PeakLive)
		require.Zero(t, least%mib)
		require.True(t, *one(t, events, policy, least, plan.Card{}).Fits)
		if least > mib {
			require.False(t, *one(t, events, policy, least-mib, plan.Card{}).Fits)
		}
	})
}

// A pool on a simulated GPU behaves as the plan predicted.
func TestPlanIsWhatAPoolDoes(t *testing.T) {
	spec := must.OK(models.ParseSpec("T4"))(t)
	machine := must.OK(simulated.New(spec, simulated.Options{}))(t)
	defer func() { require.NoError(t, machine.Close()) }()
	require.NoError(t, machine.ContextRetain(0))
	rapid.Check(t, func(t *rapid.T) {
		events := randomEvents(t)
		policy := rapid.SampledFrom([]plan.Policy{plan.TensorFlow, plan.Regions}).Draw(t, "policy")
		limit := rapid.Uint64Range(1, 64).Draw(t, "limit in MiB") * mib
		result := one(t, events, policy, limit, plan.Card{})
		a := must.OK(bfc.New(suballoc.NewRegions(device{machine}, suballoc.Options{LimitBytes: limit,
			Growth: policy == plan.TensorFlow}),
			bfc.Options{Split: bfc.SplitRule{TensorFlow: policy == plan.TensorFlow}, GarbageCollect: true}))(t)
		defer func() { require.NoError(t, a.Close()) }()
		blocks := map[uint64]uint64{}
		for i, e := range events {
			if e.Action == trace.Free {
				require.NoError(t, a.Free(blocks[e.Addr]))
				continue
			}
			block, err := a.Allocate(e.Bytes)
			if err != nil {
				require.False(t, *result.Fits)
				require.Equal(t, i+1, result.Failure.Event)
				require.Equal(t, a.Stats().BytesInUse, result.Failure.InUse)
				return
			}
			blocks[e.Addr] = block.Addr
		}
		require.True(t, *result.Fits)
		require.Equal(t, a.Stats().PeakBytesInUse, result.Measure.PeakInUse)
		require.Equal(t, a.Stats().PeakBytesReserved, result.Measure.PeakReserved)
	})
}

type device struct{ *simulated.Machine }

func (d device) MemAlloc(bytes uint64) (uint64, error) { return d.Machine.MemAlloc(0, bytes) }
func (d device) MemFree(addr uint64) error             { return d.Machine.MemFree(0, addr) }

// On a training loop with batches of many sizes the policies rank as designed.
func TestTransformer(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	least := map[plan.Policy]uint64{}
	for _, r := range finish(t, eventsOf(traces.Transformer()), plan.Request{}).Results() {
		least[r.Policy] = r.LeastLimit
	}
	require.LessOrEqual(t, least[plan.Virtual], least[plan.Regions])
	require.LessOrEqual(t, least[plan.Regions], least[plan.TensorFlow])
	require.Less(t, least[plan.TensorFlow], 60*gib)
}

func BenchmarkReplay(b *testing.B) {
	law := traces.Churn("churn", 1000, 1_000_000, 512, 8<<20)
	events := eventsOf(law)
	for _, policy := range plan.Policies() {
		b.Run(string(policy), func(b *testing.B) {
			for b.Loop() {
				one(b, events, policy, 8*gib, plan.Card{})
			}
			b.ReportMetric(float64(len(events)), "events")
		})
	}
}

// Python has the policies' names, too, because it checks them before the core is loaded.
func TestPythonHasTheSamePolicies(t *testing.T) {
	source := must.OK(os.ReadFile("../../../python/gpuconf/plans/generated/policies.py"))(t)
	listed := func(name string) (policies []plan.Policy) {
		list := regexp.MustCompile(`(?ms)^` + name + ` = \($(.*?)^\)$`).FindSubmatch(source)
		require.NotNil(t, list)
		for _, policy := range regexp.MustCompile(`"(.*)"`).FindAllSubmatch(list[1], -1) {
			policies = append(policies, plan.Policy(policy[1]))
		}
		return policies
	}
	require.Equal(t, plan.Policies(), listed("POLICIES"))
	needVirtual := slices.DeleteFunc(plan.Policies(), func(p plan.Policy) bool { return !p.NeedsVirtual() })
	require.Equal(t, needVirtual, listed("NEED_VIRTUAL"))
	require.Equal(t, []plan.Policy{plan.PyTorchExpandable, plan.Virtual}, needVirtual)
}

// A workspace is freed before anything else happens: PyTorch goes on without it where memory is short, and has released
// what it caches before.
func TestWorkspaces(t *testing.T) {
	const m = int64(mib)
	workspace := 300*m + 1
	events := script(100*m, -1, workspace, -2, 200*m, workspace, -4, -3)
	run := func(sizes map[uint64]uint64, use plan.Use) *plan.Result {
		request := plan.Request{Policies: []plan.Policy{plan.PyTorch}, Workspaces: sizes, Use: use,
			Cards: []uint64{150 * mib, 250 * mib, 450 * mib, 1000 * mib, 2000 * mib}}
		return finish(t, events, request).Results()[0]
	}
	sizes := map[uint64]uint64{uint64(workspace): 900 * mib}
	// The 200 MiB are cut from the freed workspace of 302 MiB, so that the second one needs another segment.
	require.Equal(t, []uint64{0, 0, 0, 704 * mib, 704 * mib}, run(nil, "").OnCards)
	require.Equal(t, []uint64{0, 200 * mib, 402 * mib, 704 * mib, 704 * mib}, run(sizes, plan.AsRecorded).OnCards)
	require.Equal(t, []uint64{0, 200 * mib, 200 * mib, 1000 * mib, 1900 * mib}, run(sizes, plan.Most).OnCards)
	require.Equal(t, []uint64{0, 200 * mib, 300 * mib, 300 * mib, 300 * mib}, run(sizes, plan.None).OnCards)
	require.EqualValues(t, 200*mib, run(sizes, plan.AsRecorded).LeastLimit)
	require.Greater(t, run(nil, "").LeastLimit, 500*mib)
	// What stays allocated is no workspace, whatever its size.
	kept := script(workspace, 2*m)
	request := plan.Request{Policies: []plan.Policy{plan.PyTorch}, Workspaces: sizes, Cards: []uint64{200 * mib}}
	require.Equal(t, []uint64{0}, finish(t, kept, request).Results()[0].OnCards)
}

// PyTorch had a segment of 20 MiB with a block of 10 before the first event. The plan goes on in that segment: a block
// of 8 MiB fits into the rest of it. Without the segment each of them would take one of its own.
func TestAPlanGoesOnWithTheSegmentsThatPyTorchHad(t *testing.T) {
	const addr = 1 << 41
	start := []caching.Segment{{Addr: addr, Bytes: 20 * mib, Pieces: []caching.Piece{
		{Addr: addr, Bytes: 10 * mib, Allocated: true}, {Addr: addr + 10*mib, Bytes: 10 * mib}}}}
	events := []trace.Event{
		{Action: trace.Allocate, Addr: addr, Bytes: 10 * mib, Before: true},
		{Action: trace.Allocate, Addr: addr + 10*mib, Bytes: 8 * mib, Micros: 1},
		{Action: trace.Free, Addr: addr, Bytes: 10 * mib, Micros: 2},
	}
	card := plan.Card{MemoryBytes: 30 * mib}
	pytorch := func(limit uint64, starts map[int][]caching.Segment) *plan.Result {
		results := finish(t, events, plan.Request{LimitBytes: limit, Starts: starts, Card: card,
			Policies: []plan.Policy{plan.PyTorch}}).Results()
		require.Len(t, results, 1)
		return results[0]
	}
	starts := map[int][]caching.Segment{0: start}
	r := pytorch(20*mib, starts)
	require.True(t, *r.Fits)
	require.Equal(t, 18*mib, r.Measure.PeakInUse)
	require.Equal(t, 20*mib, r.Measure.PeakReserved)
	require.Equal(t, 20*mib, r.LeastLimit)
	r = pytorch(19*mib, starts)
	require.False(t, *r.Fits, "what is in use cannot be released")
	require.Equal(t, 20*mib, r.LeastLimit)

	alone := pytorch(20*mib, nil)
	require.False(t, *alone.Fits)
	require.Equal(t, 30*mib, alone.LeastLimit)
	start[0].Pool = caching.PoolID{1, 0}
	require.Equal(t, 40*mib, pytorch(20*mib, starts).LeastLimit, "what a graph's pool has left serves nobody else")

	start[0].Pool = caching.PoolID{}
	events = append(events, trace.Event{Action: trace.Allocate, Addr: 1 << 42, Bytes: 16 * mib, Micros: 3})
	r = pytorch(64*mib, starts)
	require.False(t, *r.Fits)
	require.Equal(t, "device full", r.Failure.Cause, "the card has 10 MiB beside the segment")
}

// Three graphs each take 15 MiB and free it: each pool keeps its own. A replay in one pool needed 15 MiB for all three.
// Once PyTorch released a segment of a pool, nothing uses that pool any more, and the card has its memory again. A
// rehearsal says when the last graph of a pool was gone: what the pool has is then released where memory is short.
func TestPrivatePoolsAreKeptApart(t *testing.T) {
	events := func(then trace.Action) (events []trace.Event) {
		for graph := range uint64(3) {
			e := trace.Event{Action: trace.Allocate, Addr: (graph + 1) << 41, Bytes: 15 * mib,
				Pool: trace.PoolNumber([2]uint64{graph + 1, 0}), Micros: int64(len(events))}
			events = append(events, e)
			e.Action = trace.Free
			if events = append(events, e); then != 0 {
				e.Action = then
				events = append(events, e)
			}
		}
		return events
	}
	for _, policy := range []plan.Policy{plan.PyTorch, plan.PyTorchExpandable} {
		require.GreaterOrEqual(t, one(t, events(0), policy, 0, plan.Card{}).LeastLimit, 45*mib, policy)
		loose := finish(t, events(0), plan.Request{Policies: []plan.Policy{policy}, PoolsLeft: true}).Results()
		require.LessOrEqual(t, loose[0].LeastLimit, 20*mib, policy)
		for then, reserved := range map[trace.Action]uint64{trace.SegmentFree: 15, trace.PoolLeft: 45} {
			measured := one(t, events(then), policy, 1<<40, plan.Card{})
			require.LessOrEqual(t, measured.LeastLimit, 20*mib, policy)
			require.GreaterOrEqual(t, measured.Measure.PeakReserved, reserved*mib, policy)
		}
	}
}

// What a pool releases, the card has again.
func TestReleasedMemoryIsTheCards(t *testing.T) {
	const m = int64(mib)
	for _, policy := range []plan.Policy{plan.PyTorch, plan.TensorFlow, plan.Virtual} {
		r := one(t, script(32*m, -1, 48*m, -2, 40*m), policy, 64*mib, plan.Card{MemoryBytes: 64 * mib})
		require.True(t, *r.Fits, policy)
	}
}

// A chart of a job of any length has at most 400 points, and none is lost.
func TestATimelineHasAtMost400Points(t *testing.T) {
	for _, count := range []int{1, 399, 400, 401, 800, 801} {
		steps := make([]int64, count)
		for i := range steps {
			steps[i] = int64(mib)
		}
		timeline := one(t, script(steps...), plan.Regions, uint64(count)*mib, plan.Card{}).Measure.Timeline
		require.LessOrEqual(t, len(timeline), 400, count)
		require.GreaterOrEqual(t, len(timeline), min(count, 200), count)
		require.Equal(t, int64(count-1), timeline[len(timeline)-1].Micros)
		require.Equal(t, uint64(count)*mib, timeline[len(timeline)-1].InUse)
	}
}

func TestACardWithGranulesThatNoDriverHas(t *testing.T) {
	job, err := plan.New(context.Background(), script(1000), plan.Request{LimitBytes: mib, Card: plan.Card{
		GranuleBytes: 1000}, Policies: []plan.Policy{plan.Virtual}})
	require.NoError(t, err)
	require.ErrorContains(t, job.Determine(context.Background(), 0), "the device's granularity is 1000 bytes")
}

func TestMain(m *testing.M) { simulated.Main(m) }
