//go:build invariants

package invariants

// Enabled reports that the checks are compiled in.
const Enabled = true
