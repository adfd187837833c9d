// Command peers runs allocators side by side: gpuconf's, which is compiled in, and others, which it opens as shared
// objects (cpp/peer.h). `make bench WHAT=allocator` builds all of them, runs the command, and writes
// benchmarks/reports/allocator-benchmarks.md from its output (run.py).
//
// # The idea
//
// A contender gets a whole trace, and replays it in its own loop: one call between languages for a hundred thousand
// operations. In every round the contenders alternate, each with a new pool; the best round counts. Before that, each
// contender replays each trace once and returns the addresses of its blocks. A contender whose live blocks overlap,
// whose accounting is wrong or that loses a block is excluded, and its rows say so (verify.go).
//
// # Leagues
//
// bare: the caller keeps the allocator's own handle; no lock, no statistics. equal: a mutex, blocks freed by address,
// current and peak bytes. If a contender lacks these, its loop wraps it (cpp/replay.h, crates/src/equal.rs). The
// leagues are never compared with each other. Our allocator has no bare form, so it runs unchanged in the bare league,
// and the page says so.
//
// # Threads
//
// Contenders that are made for several threads race with 1, 2, 4 and 16 of them, on one pool and on one pool each
// (threads.go). A thread replays the whole trace through a pool of its own, or beside the others in a shared one
// (peer_beside).
package main
