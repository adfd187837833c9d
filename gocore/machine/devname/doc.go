// SPDX-License-Identifier: Apache-2.0

// Package devname parses and formats device names, such as "/job:localhost/replica:0/task:0/device:GPU:1".
//
// # Three parsers
//
// TensorFlow has three parsers for device strings. They disagree, and programs depend on each of them, so they are kept
// separate here and share only the keywords of the grammar.
//
//	P  ParseSpec       used by tf.device and DeviceSpec: lenient, Python's int(), "gpu" same as "GPU"
//	F  ParseFullName   used by placement: leading slash, case-sensitive types, "*" for any
//	L  ParseLocalName  TYPE:DIGITS and nothing else
//
//	string            P                F                     L
//	"/device:GPU:0"   /device:GPU:0    GPU:0                 no
//	"GPU:0"           /device:GPU:0    no                    GPU:0
//	"gpu:0"           /device:GPU:0    no                    gpu:0, another type than GPU
//	"/gpu:0"          /device:GPU:0    GPU:0                 no
//	"/device:gpu:0"   /device:GPU:0    gpu:0                 no
//	"GPU"             /device:GPU:*    no                    no
//	"/device:GPU"     an error         any GPU               no
//	"/cpu:0/gpu:0"    an error         GPU:0 (the last one)  no
//
// P returns a Spec, whose numbers are Python integers and so unbounded. F and L return a Name, whose numbers have 32
// bits. EnterScope uses only P: entering a scope that F cannot parse succeeds, and an operation that runs in it fails.
// MatchMemoryDevice tries F, then L.
//
// # Invariants
//
//  1. No function of this package panics, whatever the input.
//  2. P round-trips: if ParseSpec(s) returns x, ParseSpec(x.String()) returns x.
//  3. F round-trips: if ParseFullName(s) returns x, x has a type or no id, and no number in x is negative, then
//     ParseFullName(x.String()) returns x. (An id without a type is not formatted, and numbers above the 32-bit
//     range wrap to negative numbers, which F rejects.)
//  4. Unset fields of a Name are zero, so names can be compared with ==.
//  5. Given "" or one of its own results, EnterScope returns "" or a name with all five parts.
//
// All functions are pure, so there are no locks.
package devname
