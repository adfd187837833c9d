// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
)

// InternTag returns the number of a tag's name, which stays the same for the life of the process.
func InternTag(name string) (number int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
	t, err := holder.Intern(name)
	return int64(t), err
}

// CurrentTag returns the number of the calling thread's tag; 0 for none.
func CurrentTag() (number int64, err error) {
	defer process.Gate(&err)
	return int64(cabi.Tag()), process.Alive()
}

// SetTag sets the calling thread's tag to a number that InternTag returned, or to 0 for none.
func SetTag(number int64) (done bool, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return false, err
	}
	if number < 0 || number > int64(holder.Other) {
		return false, status.Errorf(status.InvalidArgument, "tag number %d is not from 0 to %d", number, holder.Other)
	}
	cabi.SetTag(holder.Tag(number))
	return true, nil
}
