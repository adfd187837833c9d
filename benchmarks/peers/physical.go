package main

import (
	"context"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/plan"
	"gpuconf/tests_go/pool/traces"
)

// leastLimits finds the smallest memory limit, in whole MiB, under which each policy runs the events, with their
// streams: the device memory that they need, whatever the addresses. gocore/plan/plan finds it with replays.
func leastLimits(events []trace.Event, policies ...plan.Policy) (map[plan.Policy]uint64, error) {
	ctx := context.Background()
	job, err := plan.New(ctx, events, plan.Request{Policies: policies})
	if err != nil {
		return nil, err
	}
	for number := range job.Len() {
		if err := job.Determine(ctx, number); err != nil {
			return nil, err
		}
	}
	least := map[plan.Policy]uint64{}
	for _, r := range job.Results() {
		least[r.Policy] = r.LeastLimit
	}
	return least, nil
}

// eventsOf returns a trace's operations as events.
func eventsOf(t *traces.Trace) []trace.Event {
	addrs := make([]uint64, t.Blocks)
	events := make([]trace.Event, len(t.Ops))
	for i, op := range t.Ops {
		if op.Bytes == 0 {
			events[i] = trace.Event{Action: trace.Free, Addr: addrs[op.Block]}
			continue
		}
		addrs[op.Block] = uint64(i+1) << 20 // an identifier; a plan places blocks itself
		events[i] = trace.Event{Action: trace.Allocate, Addr: addrs[op.Block], Bytes: op.Bytes}
	}
	return events
}
