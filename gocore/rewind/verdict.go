// SPDX-License-Identifier: Apache-2.0

package rewind

import "fmt"

// Verdict compares a replay with the record. The counts are of all GPUs.
type Verdict struct {
	Allocations  int    `json:"allocations"`   // how many there are in the record
	SameAddress  int    `json:"same_address"`  // those that the replay placed where the record has them
	Undetermined int    `json:"undetermined"`  // not in SameAddress: they depend on what the record does not determine
	Segments     int    `json:"segments"`      // taken and released, and mapped and unmapped
	SameSegments int    `json:"same_segments"` // those of Segments that the replay has at the same place in the record
	Difference   string `json:"-"`             // the first one; "": there is none
}

// Same reports whether everything that the record determines is the same.
func (v *Verdict) Same() bool { return v.Difference == "" }

// differs records the first difference.
func (v *Verdict) differs(format string, args ...any) {
	if v.Difference == "" {
		v.Difference = fmt.Sprintf(format, args...)
	}
}

// inconsistent is the error of a record that contradicts itself.
type inconsistent string

func (e inconsistent) Error() string { return string(e) }

func inconsistentf(format string, args ...any) error {
	return inconsistent(fmt.Sprintf(format, args...))
}
