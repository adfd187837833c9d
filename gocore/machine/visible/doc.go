// SPDX-License-Identifier: Apache-2.0

// Package visible determines which GPUs a process may use, and in which order, from CUDA_VISIBLE_DEVICES and
// CUDA_DEVICE_ORDER. It works only on the identities of the machine's GPUs: it reads no environment and calls no
// driver.
//
// The CUDA driver applies the two variables itself. This package does the same for simulated GPUs, and for real GPUs it
// maps ordinals to the machine's cards.
//
// # Rules
//
// Rules 1 to 4 are from NVIDIA's manual; the others are the observed behavior of its driver. (PyTorch's parser, which
// was compared with the driver, agrees on 5 to 8.)
//
//  1. Not set: every GPU is visible, in the order of CUDA_DEVICE_ORDER. Empty: no GPU is visible.
//  2. Set: a comma-separated list. GPUs are numbered from 0 in the order of the list.
//  3. An entry is an index into the order of CUDA_DEVICE_ORDER, or a GPU's UUID ("GPU-..."), or a prefix of one that
//     matches exactly one GPU. UUIDs are case-sensitive.
//  4. The first invalid entry ends the list: that entry and all that follow are ignored. So "0,2,-1,1" selects 0 and 2,
//     and "-1" selects no GPU. A prefix that matches several GPUs is invalid.
//  5. If a GPU is listed twice before the list ends, no GPU is visible: "0,1,0" selects no GPU.
//  6. The first entry determines whether the list contains indices or UUIDs; an entry of the other kind is invalid.
//  7. An index is parsed like C's strtol: leading white space and one sign are skipped, and text after the digits is
//     ignored: " +1abc" is 1, "-0" is 0, "0x1" is 0. Without a digit ("", "all", "NoDevFiles") the entry is invalid.
//  8. A UUID is matched literally: with leading or trailing white space it is invalid.
//  9. "MIG-..." names a MIG instance. Such a list is a third kind. Its entries match the instances of the machine, if
//     it has some.
//  10. CUDA_DEVICE_ORDER is PCI_BUS_ID or FASTEST_FIRST. Any other value, or none, means FASTEST_FIRST, which sorts by
//     speed, fastest first, and then by PCI bus id.
//
// # Notices
//
// The driver ignores invalid values silently; this package does not. Each deviation from the literal meaning of the
// value (rules 4 to 9, or an invalid value in rule 10) produces one notice that says what was ignored and why. The
// conventional ways to hide all GPUs ("", "-1", "NoDevFiles") produce none.
package visible
