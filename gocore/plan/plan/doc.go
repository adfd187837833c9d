// SPDX-License-Identifier: Apache-2.0

// Package plan predicts, without a GPU, whether a recorded job would fit: it replays the recording on the real
// allocator, over a device that only counts bytes.
//
// # Overview
//
// A workload is one logical GPU's part of a trace, with block numbers in place of addresses. A replay runs it through
// a new pool, with some Policy and limit, and stops at the first allocation that fails. The pool is gpuconf's allocator
// or the model of PyTorch's (package caching). A Job answers a Request for each GPU and policy. The answers do not
// depend on each other, so several can be determined at a time. The context cancels it.
//
//	search   replays until the least limit is known; for a policy with several settings, the least of all
//	limit    a replay under the requested limit, if there is one. If the job does not fit it, the Measure is that of
//	         the least limit: it always describes a replay that ran to its end
//
// # The least limit
//
// The least limit is in whole MiB, as memory_limit is. No limit below the peak of live bytes can suffice. From there,
// the search increases the limit by steps that double until the job fits, and then divides the interval. So the job
// fits under the limit that it finds, and does not fit under one MiB less. Nothing is promised about other limits: with
// any allocator that chooses between free chunks, more memory does not always help.
//
// A replay that fails ends early, so the search tries low limits first, the more so the earlier the last one failed
// (share). A replay also returns the range of limits under which the pool would have done exactly the same: those that
// would not have changed the outcome of any comparison with the limit. The search continues at the ends of that range.
// Under Virtual, whose layout depends on the limit, there is no such range. There, a replay counts the granules that
// blocks lie in (granules): their maximum is close to the least limit, so it is what the search tries next (guess). The
// replay that found the least limit has measured it, too.
//
// # What a replay leaves out
//
// A replay of gpuconf's allocator has one stream: memory can be reused as soon as it is freed. A replay of PyTorch's
// keeps the streams apart. A replay has one pool on the device: other memory on the device, such as CUDA's context, is
// not included.
//
// # Locks
//
// A Job has no lock: only one goroutine may use it at a time, except that several may determine different results. They
// share the workloads, which only New changes.
package plan
