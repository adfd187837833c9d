// SPDX-License-Identifier: Apache-2.0

package rewind

import "fmt"

// Verdict compares a replay with the record. The counts are of all GPUs.
type Verdict struct {
	Allocations  int    `json:"allocations"`   // allocations in the record
	SameAddress  int    `json:"same_address"`  // those that the replay placed at the address in the record
	Undetermined int    `json:"undetermined"`  // those that depend on what is not in the record; not in SameAddress
	Segments     int    `json:"segments"`      // events in the record that take, release, map or unmap segments
	SameSegments int    `json:"same_segments"` // those that the model did, too
	Difference   string `json:"-"`             // what differs first; "": nothing
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
