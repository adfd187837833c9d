// SPDX-License-Identifier: Apache-2.0

// Package turns plans which programs leave a card for those that wait: when, and for which of them. It only computes.
// python/gpuconf/jobs/agent.py acts by its plans.
//
// # Idea
//
// A program that takes turns can be parked: its memory goes to the host, and comes back before it goes on. The swap
// costs time, in which the card is idle. So a program leaves only if a waiter gets its cards by it, and only after a
// turn that pays for the swap. The processes that park programs all see the same ledger. So all come to the same plan,
// and each does its own part of it.
//
// A plan is made for one waiter after the other, in the order of tickets. The programs that can leave soonest leave for
// the first, and those that are not needed stay. If several have to leave for one waiter, the first of them stays until
// the last can leave, since its cards would be idle until then.
//
// What was lent to a program (ledger.Claim.Lend) is returned before any program leaves, and at once.
//
// # Invariants
//
// Of programs that take turns:
//
//  1. The granted leases of a card never exceed it, nor do the bytes that the driver has given out, also while a
//     program leaves or comes back: it has its lease in both.
//  2. A program comes back only with a lease of at least what was saved, and with that much measured free.
//  3. A lease ends only after the program's bytes are measured gone.
//  4. Only a program that has its turn calls the driver.
//  5. What parked programs have in the host's memory never exceeds what they have reserved there. A program leaves or
//     comes back, never both.
//  6. No program leaves without a waiter. Among programs that can be parked, a waiter has its turn within
//     (waiters) x (slice + out + in), the longest of each. Those that cannot be parked are named to who waits for them.
//  7. A program that could not be parked goes on as before, with the same values and addresses.
//  8. A program that could not come back is not tried again. It keeps its place in the host's memory until it ends, and
//     the others go on.
//
// This package decides 6 and keeps to the host's room for 5; the ledger keeps 1 and 5 (its invariants 1 and 12), and
// who parks the program the rest. All eight are checked in schedules of random programs (tests_go/lease/turns).
package turns
