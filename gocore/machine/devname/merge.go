// SPDX-License-Identifier: Apache-2.0

package devname

import "gpuconf/gocore/base/status"

// MergeHard merges two partial names into one that satisfies both. If a field differs, it returns an InvalidArgument
// error.
func MergeHard(a, b Name) (Name, error) { return merge(a, b, false) }

// MergeSoft merges two partial names under soft placement: if the types differ, the result has neither type nor id; if
// only the ids differ, it has no id. Job, replica and task must still agree.
func MergeSoft(a, b Name) (Name, error) { return merge(a, b, true) }

// merge adds b's fields to a one by one, so an error shows a with the fields of b merged so far.
func merge(a, b Name, soft bool) (Name, error) {
	conflict := func(what string) (Name, error) {
		return Name{}, status.Errorf(status.InvalidArgument,
			"Cannot merge devices with incompatible %s: '%s' and '%s'", what, a, b)
	}
	if b.HasJob {
		if a.HasJob && a.Job != b.Job {
			return conflict("jobs")
		}
		a.HasJob, a.Job = true, b.Job
	}
	if b.HasReplica {
		if a.HasReplica && a.Replica != b.Replica {
			return conflict("replicas")
		}
		a.HasReplica, a.Replica = true, b.Replica
	}
	if b.HasTask {
		if a.HasTask && a.Task != b.Task {
			return conflict("tasks")
		}
		a.HasTask, a.Task = true, b.Task
	}
	if b.HasType {
		if a.HasType && a.Type != b.Type {
			if !soft {
				return conflict("types")
			}
			a.HasType, a.Type, a.HasID, a.ID = false, "", false, 0
			return a, nil
		}
		a.HasType, a.Type = true, b.Type
	}
	if b.HasID {
		if a.HasID && a.ID != b.ID {
			if !soft {
				return conflict("ids")
			}
			a.HasID, a.ID = false, 0
			return a, nil
		}
		a.HasID, a.ID = true, b.ID
	}
	return a, nil
}
