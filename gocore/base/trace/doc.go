// SPDX-License-Identifier: Apache-2.0

// Package trace records operations on device memory, and reads and writes such recordings as files.
//
// # Overview
//
// A Recorder has one Ring for each logical GPU: a table of fixed size, outside the Go heap, that keeps the newest
// entries. A ring has no lock. The code that changes a pool's accounting appends the entry while it still
// holds that pool's lock, so the entries of one GPU are in the order of the changes, whichever threads made them. An
// entry allocates no Go memory.
//
//	running  Append adds entries; the oldest are overwritten
//	stopped  Append does nothing; Recording converts the entries into events, any number of times
//	closed   the tables are unmapped
//
// A Recording is a plain value with Events. Every block that was live when its window began is allocated at its
// beginning, so a Recording is self-contained, even if the ring has lost older entries.
//
// # Holders and stacks
//
// An entry has the number of the block's holder (package holder). If the recording has Sites, it also has the number of
// the Python calls that led to an allocation. C notes them before it enters Go (pybind/cabi/stack.c), and passes each
// distinct stack to Sites once. In a Recording, both are indexes into its Names, so that it is self-contained.
//
// # Time and thread
//
// Both are read without a system call, because an allocation takes less time than most calls would. The time comes
// from the processor's counter (registers_*.s), which is converted to clock time once, when the recording stops. The
// thread comes from the register that points to the C library's thread record. On x86-64 its value is that of
// pthread_self (and Python's threading.get_ident).
//
// # Files
//
// Files are in the CSV format of RMM, the RAPIDS memory manager, one event a line, with additional columns for the GPU,
// the holder and the stack:
//
//	Thread,Time,Action,Pointer,Size,Stream,GPU,Library,Tag,Stack
//
// ParseCSV reads what RMM writes, and common variations of it. ReadBoth reads PyTorch's snapshots. Both take memory
// for at most a multiple of the file's size, and return early when their context ends.
//
// # Invariants
//
//  1. A ring's entries are the newest min(count, len(entries)) of those appended, in that order.
//  2. Times in one ring never decrease.
//  3. In a Recording, within one GPU, no block is freed that was not allocated before, and no block is allocated that
//     is live.
//
// # Locks
//
// A Recorder has a mutex for the list of rings. Count and Stop acquire the rings' guards while holding it; a guard is
// the lock of the pool that the ring records. Append acquires no lock. Recording holds the mutex while it works, so
// Count and Close wait for it.
package trace
