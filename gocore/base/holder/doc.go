// SPDX-License-Identifier: Apache-2.0

// Package holder identifies who holds a block of device memory: a library, and the tag that the program gave.
//
// # Overview
//
// A Library is the entry point that allocated the block. A Tag is a name that the program set for a part of itself,
// such as "optimizer". An ID combines both in 16 bits, so that a chunk record has room for it and an entry point can
// form it without a look-up.
//
// Tags are interned: each name gets a number at its first use and keeps it while the process runs, through resets.
// There are MostTags numbers. Names that come later share the tag Other, so that a program that makes up a name for
// each step still runs.
//
// # Invariants
//
//  1. A number has one name, and a name has one number, except that Other has many.
//  2. The zero ID is library C without a tag.
//
// # Locks
//
// One mutex guards the names. Nothing is called while it is held.
package holder
