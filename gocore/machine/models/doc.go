// SPDX-License-Identifier: Apache-2.0

// Package models has the GPU models that can be simulated, and the grammar of specifications such as 2xH100-80GB.
//
// Both are in C (models.h, spec.h), because the simulator's libraries read the same table and the same grammar. Go's
// part converts. There is no state.
package models
