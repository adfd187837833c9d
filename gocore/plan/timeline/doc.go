// SPDX-License-Identifier: Apache-2.0

// Package timeline sums up what a trace says about memory over time, for a report: the memory in use by holder at some
// moments, and the live blocks at the peak.
//
// # Overview
//
// Of makes a Timeline for each logical GPU. Time is divided into intervals of equally many events. Each contributes the
// moments of its least and of its greatest memory in use and its last one, with what every holder has then. So all
// extremes are exact, however long the trace is.
//
// Blocks count with their size rounded up to 256 bytes, as the pool counts them, or with the size that PyTorch used, if
// that is known. As in a plan, a block whose free is missing ends when its address is allocated again, and a block that
// is freed without having been allocated was live when the trace began. What was live then is one moment.
//
// # Invariants
//
//  1. The bytes of a moment's holders add up to the live blocks after its event.
//  2. Peak is the first moment with the most memory in use after any event.
//  3. The bytes of Blocks add up to those of Peak.
//
// The package keeps no state, so it has no lock.
package timeline
