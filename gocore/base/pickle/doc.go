// SPDX-License-Identifier: Apache-2.0

// Package pickle reads Python pickles that hold plain data: containers, numbers and text.
//
// # Overview
//
// A pickle is a program for a stack machine. Read runs that program, but rejects the instructions that name or call
// code. No code from the file runs, and no number in the file determines how much memory is allocated:
//
//   - A number in the file never sizes an allocation. A length is checked against the remaining bytes, and a memo index
//     only names an entry.
//   - Everything that grows is charged to a Budget first.
//   - Nothing recurses, so nesting costs memory only.
//
// Only what the caller needs is kept: of a dictionary, the entries under the given words; of a text, its position in
// the file; of a tuple, two small integers if it has just these; of sets and bytes, only the kind. This also keeps
// large files cheap: a Value has no pointers.
//
// # Invariants
//
//  1. Read visits each byte a bounded number of times, and checks its context every few thousand instructions.
//  2. The allocated memory is at most what the Budget allows.
//  3. A list or dictionary may be reachable by several paths, or contain itself. Code that walks a Tree must bound the
//     walk, with the same Budget.
package pickle
