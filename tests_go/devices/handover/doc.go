// Package handover checks the reuse of memory across streams: through a devmgr.Manager, over any driver, in every
// possible order of events.
//
// A Program describes what a few threads do: allocate memory on a stream, queue work that writes and reads it, record
// its use by another stream, free it. Exhaust runs a program on a simulated machine that works step by step
// (tests_go/machine/simulated), in all interleavings of the threads' calls and the device's pieces of work. Sample runs
// it on a free-running device, in random interleavings.
//
// # What is checked
//
// order.go is a driver that forwards calls and keeps vector clocks: for each stream, what its later work comes after;
// for each mark and event, what it covers; for the host, what it could know to be done. When work on a block is queued,
// all work that other blocks' owners have queued on the same bytes must come before it. In addition, each block has its
// own value, which is written to it and read back (a canary), to detect mistakes of the clocks.
//
// # What is left out
//
// Two steps that share nothing have the same effect in either order. Of the interleavings that differ only in the order
// of such adjacent steps, Exhaust runs one (sleep sets). The function independent decides which steps are; in doubt,
// they are not. Threads take turns after each call: a pool has one lock, so a call is a single step.
package handover
