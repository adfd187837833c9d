// Package plan tells without a GPU whether a recorded job would fit: it replays the record over the real allocator, with
// a device below it that only counts.
//
// # The idea
//
// A workload is one logical GPU's part of a trace, with addresses replaced by numbers of blocks. A replay runs it through a new pool of
// some Policy under some limit, and stops at the first allocation that fails. A Job does for each GPU and policy what was asked, one
// replay a step. Its user can show progress between two, and give up at any time, by the context:
//
//	limit    a replay under the limit that was asked for, if one was
//	search   replays until the least limit is known
//	measure  a replay under the least limit, if the one asked for does not do: what is told of a job is told of one that ran to its end
//
// # The least limit
//
// It is in whole MiB, as memory_limit is. No limit below the peak of live bytes can do; from there the search goes up by steps that double
// until one does, and then halves the interval. So the job fits under what it finds, and not under a MiB less. (More memory does not always
// help any allocator that chooses between pieces; beyond that one MiB nothing is promised.)
//
// # What a replay is not
//
// It has one stream: memory is free when it was freed. It has one pool on the device: what else takes memory there, CUDA's context
// first of all, is not in it.
//
// # Locks
//
// A Job has none: it is for one goroutine at a time.
package plan
