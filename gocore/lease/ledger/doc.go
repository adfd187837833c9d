// SPDX-License-Identifier: Apache-2.0

// Package ledger records what the processes of one machine lease of its GPUs. Programs that do not know of each other
// share cards, each within its own limit, and see the others' leases.
//
// # Idea
//
// A ledger is a folder. Its parts:
//
//	ledger      the header, one line of text: version of the format, least version that reads it, private or
//	            shared. Its flock is the grant lock
//	wake        words that a release or an unlock changes, and on which waiters sleep (futex)
//	slots-*     slot files: each belongs to one user, who alone can write it, and has 128 slots
//	.new-*      files that are not finished
//
// A slot is a claim (bytes on cards, leased or waited for) or a process (the live figures of its memory pools). A slot
// is alive as long as the open-file-description lock of its first byte is held, and its entry in the file's directory
// does not say that it is free. The kernel drops the lock when the last descriptor of the open file is closed, also if
// the process is killed. The contents of a slot without a lock do not matter.
//
// A claim is decided by the process that makes it: it takes the grant lock, reads all live slots, and writes only its
// own. So no process needs to write to other users' files, and a claim of several cards is granted in one step.
//
// One lock and one place for all cards, rather than a file for each card: a claim of several cards needs no order of
// locks, a waiter for any of several cards stands in one queue, and a shared folder has no file that one user creates
// and all others must trust.
//
// # States
//
//	free       the directory entry says so, or the lock is not held
//	waiting    a claim with a ticket
//	granted    a claim whose leased cards count
//	parked     a granted claim whose program is in the host's memory; only what it has of that counts
//	process    the figures of a process
//
//	free -> waiting -> granted -> free, free -> granted -> free, waiting -> free, free -> process -> free,
//	granted -> parked -> granted, parked -> free
//
// # Invariants
//
//  1. For each card, and each granted claim: the leases that were granted up to it and are alive add up to at most its
//     Total, the card's memory less its reserve. So live leases never exceed the card. In a shared ledger, this does
//     not count the leases of users who spoil their own files.
//  2. IDs and tickets of live claims are unique.
//  3. A slot comes alive, or becomes granted, only under the grant lock. It may become free at any time.
//  4. A granted claim leases exactly as many cards as it requested; a waiting claim leases none.
//  5. Order: in the order of tickets, each waiting claim that does not fit holds the cards on which it lacks the least;
//     a younger claim gets only what is left. Claims of one class (same cards, bytes and count) are granted strictly in
//     order; a claim of another class passes an older one only where it does not delay it.
//  6. No starvation: what a waiting claim's best cards have left for it never decreases because of a younger claim, and
//     increases with each release.
//  7. A process writes only slots that it has locked, in files of its own user. It writes the directory entry last.
//  8. A file gets its name when it is complete, and never changes its size.
//  9. No order depends on a clock. Tickets count up from the highest live one, or the highest that is not forged
//     (view.next).
//  10. A waiter that is stopped (SIGSTOP, a frozen container) delays no other: each time a waiter looks, it writes the
//     time since boot into
//     its directory entry, and all others decide as if a waiter whose time is more than 5 seconds ago, or still to
//     come, were not there (5 and 6 hold among the others). When it continues, it takes its old place again. The time
//     since boot is one for all processes; who states it wrongly only steps aside.
//  11. What a writer writes, every reader accepts, whatever hostile files the writer has read.
//  12. The host's memory is a card for 1. A parked claim has reserved as much of it as its program saved, and has had
//     cards, which it leases no longer. One write of an entry, under the grant lock, parks a claim or brings it back:
//     if the process that does it is killed, the slot is one or the other, and stays as long as its program lives.
//  13. A granted claim gets more of its cards than it requested only under the grant lock, and while no other claim
//     waits for them (lent.go). It counts for 1 as all that it leases.
//
// Check checks 1, 2, 4 and 12, that directory and records agree, and what reading refuses or passes over: damaged
// files, other versions, wrong owners, modes and sizes.
//
// # Versions
//
// The format can grow. Lengths in each record say where its parts begin, and readers skip what they do not know: more
// words in the first line of a file, more bytes in heads and rows, tags of the tail, kinds of slots (which take no
// memory; a live one is not overwritten).
//
// A record may name a least version. For a reader below it, only the leased cards of the record count. The header names
// the least version for the whole ledger. A reader below it refuses the ledger, and says which version it needs.
//
// # Locks in memory
//
// Claim.mu and Publication.mu, then Ledger.mu, then the grant lock.
//
// # What is defended, and what is not
//
// Files are opened without following symbolic links, and checked after they are opened: owner, mode, type, size. What
// others can shrink is read with pread and never through a mapping, because reading a truncated mapping ends the
// process; a process maps only its own user's file, and the wake file only for the kernel. Everything that is read may
// be hostile: it has bounds and a checksum, and texts come without control characters. The user of a slot is the owner
// of its file, whatever it says.
//
// In a private ledger, and for a user's own files, what cannot be read is refused. In a shared ledger, what another
// user's files say and cannot be read is passed over, and Check names it: only that user can have spoiled it, and loses
// by it, because no process counts those leases any longer. It is as if their programs used GPUs without a lease.
// Refusing would let any user stop all others. A user has at most 32 slot files, each with 128 slots; more are ignored,
// so they cost others no descriptors.
//
// In a shared ledger, a hostile user can see who leases what. They can keep others waiting: by holding the grant lock
// (errors name the process), by claiming all memory, by a ticket that is too low, or by thousands of files (errors name
// the user). Read locks on another user's slots, which anybody can take who can read the file, cost that user files: a
// new file's first slot is taken before others can open it, so there are at most as many as leases, and 32. They can
// use a GPU without a lease: a ledger is an agreement, like a limit. They cannot change or end another user's claims or
// figures, make them unreadable, pretend to be another user, make others follow a link, or end another process.
package ledger
