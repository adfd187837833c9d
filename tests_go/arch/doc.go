// Package arch holds the rules of the code base as data, and fails with the remedy where code breaks one.
//
// The data states a policy. If a test here fails, fix the code. To change the policy, change ARCHITECTURE.md in the
// same commit.
package arch
