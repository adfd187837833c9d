package main

import (
	"context"

	"gpuconf/gocore/plan"
	"gpuconf/gocore/trace"
	"gpuconf/tests_go/traces"
)

// leastLimit is the smallest memory limit, in whole MiB, under which gpuconf runs a trace with one of its policies: the
// device memory that it needs, whatever the addresses. gocore/plan finds it with replays.
func leastLimit(t *traces.Trace, policy plan.Policy) (bytes uint64, err error) {
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
	job, err := plan.New(context.Background(), events, plan.Request{Policies: []plan.Policy{policy}})
	if err != nil {
		return 0, err
	}
	if err := determineAll(context.Background(), job); err != nil {
		return 0, err
	}
	return job.Results()[0].LeastLimit, nil
}
