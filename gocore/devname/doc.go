// Package devname reads and writes device names, such as "/job:localhost/replica:0/task:0/device:GPU:1".
//
// # Three parsers
//
// TensorFlow reads device strings in three ways that do not agree, and programs depend on each. They are kept
// apart here, and nothing is shared between them but the words of the grammar.
//
//	P  ParseSpec       what tf.device and DeviceSpec read: lenient, Python's int(), "gpu" and "GPU" alike
//	F  ParseFullName   what placement reads: a leading slash, case-sensitive types, "*" for any
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
// P gives a Spec, whose numbers are Python's and so unbounded. F and L give a Name, whose numbers have 32 bits.
// EnterScope works on P alone: a scope that F cannot read is entered without complaint, and fails when an
// operation runs under it. MatchMemoryDevice reads F, else L.
//
// # Invariants
//
//  1. No input makes a function of this package panic.
//  2. P is stable: if ParseSpec(s) gives x, ParseSpec(x.String()) gives x again.
//  3. F is stable: if ParseFullName(s) gives x and x has a type or no id, and no number in x is negative, then
//     ParseFullName(x.String()) gives x again. (An id without a type is not written, and numbers above the 32-bit
//     range wrap to negative ones, which F cannot read.)
//  4. A field of a Name that is not set is zero, so names compare with ==.
//  5. EnterScope, given "" or what it returned before, returns "" or a name with all five parts.
//
// Everything here is a pure function of its arguments, so there is nothing to lock.
package devname
