// SPDX-License-Identifier: Apache-2.0

// Package offheap maps tables outside the Go heap.
//
// The garbage collector neither scans nor moves them, and the kernel commits a page when it is first touched. A table
// may therefore be far longer than the part of it that is in use, and a pointer into it stays valid until Unmap. The
// element type must not contain Go pointers, because the collector does not see them.
package offheap
