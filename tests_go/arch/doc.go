// Package arch holds the house's rules as data and fails where the code breaks one, with the remedy.
//
// The data is a statement of policy: when a test here fails, mend the code. Whoever has a reason to change the policy
// changes ARCHITECTURE.md in the same commit.
package arch
