// Package pickle reads Python pickles that hold plain data: containers, numbers and text.
//
// # The idea
//
// A pickle is a program for a stack machine. Read runs that program, except for the instructions that name or call code: they are errors.
// Nothing in the file can run, and nothing in it decides how much memory is taken:
//
//   - A number in the file never sizes an allocation. A length is checked against the bytes that are left, and a memo index only names an entry.
//   - Everything that grows is charged to a Budget first.
//   - Nothing recurses, so nesting costs memory only.
//
// What the caller does not ask for is not kept: of a dictionary only the entries under the given words, of texts only their place in the
// file, of tuples, sets and bytes only the kind. This also keeps large files cheap: a Value has no pointers.
//
// # Invariants
//
//  1. Read looks at each byte a bounded number of times, and checks its context every few thousand instructions.
//  2. The memory taken is at most what the Budget allowed.
//  3. A list or dictionary may be reached by several ways, or contain itself. Whoever walks a Tree bounds the walk, with the same Budget.
package pickle
