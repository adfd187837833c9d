// Command peers runs allocators side by side: gpuconf's, which it is compiled with, and others, which it opens as shared objects
// (cpp/peer.h). `make bench-allocator` builds those and this, runs it, and writes docs/allocator-benchmarks.md from its answer (run.py).
//
// # The idea
//
// A contender gets a whole trace, and its own loop does it: one call between languages for a hundred thousand operations. In every round
// the contenders take turns, each with a new pool; what counts is the best round. Before any of that each contender does each trace once
// and gives the addresses of its blocks: one whose live blocks overlap, whose books are wrong or that loses a block is out, and its rows
// say so (verify.go).
//
// # Leagues
//
// bare: the caller keeps the allocator's own handle; no lock, no statistics. equal: a mutex, blocks freed by address, current and peak
// bytes. Where a contender does not have these by itself, its loop wraps it (cpp/replay.h, crates/src/equal.rs). The leagues are never
// compared with each other. Ours has no bare form, so in the bare league it runs as it is and is said to.
package main
