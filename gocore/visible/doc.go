// Package visible answers which GPUs a process may use, and in which order, from CUDA_VISIBLE_DEVICES and
// CUDA_DEVICE_ORDER. It is a pure function over the identities of the machine's GPUs: it reads no environment
// and knows no driver.
//
// The CUDA driver applies the two variables by itself. This package does the same for simulated GPUs, and tells
// for real ones which card of the machine an ordinal is.
//
// # The rules
//
// NVIDIA's manual gives 1 to 4; the rest is how its driver was seen to behave (PyTorch's parser, which was compared with the
// driver, agrees on 5 to 8).
//
//  1. Not set: every GPU, in the order of CUDA_DEVICE_ORDER. Set to nothing: no GPU.
//  2. Set: a comma list. The GPUs come in the order of the list, numbered from 0.
//  3. An entry is an index into the order of CUDA_DEVICE_ORDER, or a GPU's UUID ("GPU-..."), or the beginning of one,
//     as long as it fits only one GPU. It is case-sensitive.
//  4. The first entry that names no GPU ends the list: it and all that follow are ignored. So "0,2,-1,1" is 0 and 2,
//     and "-1" is none. An entry that fits several GPUs names none.
//  5. A GPU that is named twice before the list ends hides all of them: "0,1,0" is none.
//  6. The first entry decides whether the list is one of indices or of UUIDs; an entry of the other kind names no GPU.
//  7. An index is read as C's strtol does: white space and one sign before it are skipped, and the rest after
//     the digits is ignored: " +1abc" is 1, "-0" is 0, "0x1" is 0. Without a digit ("", "all", "NoDevFiles") it names no GPU.
//  8. A UUID is taken as it stands: white space before or after it makes it name no GPU.
//  9. "MIG-..." names a slice of a GPU. It is a list of its own kind, and fits no GPU here.
//  10. CUDA_DEVICE_ORDER is PCI_BUS_ID or FASTEST_FIRST. Not set, empty or anything else: FASTEST_FIRST, which orders by
//     speed, the fastest first, and by PCI bus id among equals.
//
// # Notices
//
// Ignoring what a user wrote without a word is the driver's manner, not ours: each departure from the plain reading of the
// value (rules 4 to 9, a bad rule 10 value) gives one notice that says what was ignored and why. The customary ways to hide
// all GPUs ("", "-1", "NoDevFiles") are no departure.
package visible
