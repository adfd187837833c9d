// SPDX-License-Identifier: Apache-2.0

//go:build !invariants

package invariants

// Enabled reports whether the checks are compiled in.
const Enabled = false
