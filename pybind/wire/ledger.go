// SPDX-License-Identifier: Apache-2.0

package wire

import "gpuconf/gocore/lease/ledger"

// Grant is the state of a claim of this process.
type Grant struct {
	ID         ledger.ID          `py:"id"`         // the claim's, 32 hexadecimal digits
	Cards      []ledger.CardLease `py:"cards"`      // the leased cards; none while the claim waits
	Descriptor int                `py:"descriptor"` // the open file that holds the claim
}

// LedgerRows is all that is alive in a ledger.
type LedgerRows struct {
	Claims    []ledger.ClaimRow   `py:"claims"`    // in the order of their tickets
	Processes []ledger.ProcessRow `py:"processes"` // those that publish figures
}
