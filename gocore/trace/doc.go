// Package trace records what is done to device memory, and reads and writes such records as files.
//
// # The idea
//
// A Recorder has one Ring for each logical GPU: a table of fixed size, outside the Go heap, that keeps the newest entries. A ring has
// no lock of its own: whoever changes a pool's books appends an entry before it lets go of their lock. So the entries of one GPU
// stand in the order in which its books changed, whichever thread did it. An entry makes no Go memory.
//
//	running  Append adds entries; the oldest make room
//	stopped  Append does nothing; Recording makes events of the entries, as often as it is called
//	closed   the tables are gone
//
// A Recording is Events, a plain value: every block that was live when its window began is allocated at its beginning, so that it makes sense by
// itself, also when the ring has lost what came before.
//
// # Time and thread
//
// Both are taken without a call, since an allocation takes less time than most calls would: the time from the processor's counter
// (counter_*.s), which is brought to the clock's time once, when the recording stops; the thread from the register that points
// to the C library's record of it, whose value is what pthread_self (and Python's threading.get_ident) gives on x86-64.
//
// # The file
//
// Files are the CSV of RMM, the RAPIDS memory manager, a line an event, with one column more where there is more than one GPU:
//
//	Thread,Time,Action,Pointer,Size,Stream,GPU
//
// Its reader takes what RMM writes and what people make of that: see ParseCSV. ReadSnapshot reads PyTorch's snapshots. Both take memory for
// at most a multiple of the file's size, and end early when their context does.
//
// # Invariants
//
//  1. A ring's entries are the newest min(next, len(entries)) of those appended, in that order.
//  2. Times of one ring never fall.
//  3. In a Recording no block is freed that was not allocated before, within one GPU, and none is allocated that is live.
//
// # Locks
//
// Recorder has a mutex for the list of rings. With it held Count and Stop take the guards of the rings, which are the locks of the
// books that they tell of. Append takes none. Recording holds the mutex for as long as it works, so Count and Close wait for it.
package trace
