// Package handover judges how memory goes from stream to stream: through a devmgr.Manager, over any driver, with every order of things that
// there is.
//
// A Program is what a few threads do: take memory on a stream, queue work that writes and reads it, say that another stream uses it, give it
// back. Exhaust runs a program on a simulated machine that works step by step (tests_go/stepping), in all interleavings of the threads' calls
// and of the single pieces of work that the device does; Sample runs it on a device that works by itself, in random ones.
//
// # What is judged
//
// order.go is a driver that passes calls on and keeps vector clocks: of each stream what its later work comes after, of each mark and event what it
// stands for, of the host what it could know to be done. When work on a block is queued, all work that other blocks' owners have queued on the
// same bytes must come before it. Beside that each block has a value of its own that is written to it and read back (canaries): so what the
// clocks may have got wrong would show.
//
// # What is left out
//
// Two steps that touch nothing in common give the same in either order. Of the interleavings that differ only in the order of such neighbours Exhaust
// runs one (sleep sets). What depends on what is in independent; when in doubt, it does. Threads are taken in turns, a call at a time: a pool
// has one lock, which makes its calls single steps.
package handover
