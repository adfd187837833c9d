// SPDX-License-Identifier: Apache-2.0

package devname

import (
	"strconv"
	"strings"
)

// Name is a device name as used by placement and statistics: a device's full name, or a pattern in which any field may
// be unset. The zero Name matches everything. Unset fields are zero, so names can be compared with ==.
type Name struct {
	HasJob, HasReplica, HasTask, HasType, HasID bool // which fields are set

	Job     string // such as "localhost"
	Replica int32  // the number after "replica:"
	Task    int32  // the number after "task:"
	Type    string // such as "GPU"
	ID      int32  // the number among the devices of the type
}

// LocalDevice is the full name of a device of this process.
func LocalDevice(deviceType string, id int) Name {
	return Name{
		HasJob: true, HasReplica: true, HasTask: true, HasType: true, HasID: true,
		Job: "localhost", Type: deviceType, ID: int32(id),
	}
}

// String formats the fields that are set, in canonical order. A missing id is "*"; an id without a type is omitted.
func (n Name) String() string {
	var b strings.Builder
	if n.HasJob {
		b.WriteString("/job:" + n.Job)
	}
	if n.HasReplica {
		b.WriteString("/replica:" + strconv.Itoa(int(n.Replica)))
	}
	if n.HasTask {
		b.WriteString("/task:" + strconv.Itoa(int(n.Task)))
	}
	if n.HasType {
		b.WriteString("/device:" + n.Type + ":")
		if n.HasID {
			b.WriteString(strconv.Itoa(int(n.ID)))
		} else {
			b.WriteString("*")
		}
	}
	return b.String()
}

// Local returns the short name of a device of this process: "/device:GPU:0".
func (n Name) Local() string {
	return Name{HasType: n.HasType, Type: n.Type, HasID: n.HasID, ID: n.ID}.String()
}

// IsComplete reports whether every field is set: the name of one device.
func (n Name) IsComplete() bool {
	return n.HasJob && n.HasReplica && n.HasTask && n.HasType && n.HasID
}

// Compatible reports whether the names agree in every field that both set.
func Compatible(a, b Name) bool {
	return !(a.HasJob && b.HasJob && a.Job != b.Job) &&
		!(a.HasReplica && b.HasReplica && a.Replica != b.Replica) &&
		!(a.HasTask && b.HasTask && a.Task != b.Task) &&
		!(a.HasType && b.HasType && a.Type != b.Type) &&
		!(a.HasID && b.HasID && a.ID != b.ID)
}

// Matches reports whether device has the same value in every field that the pattern sets.
func (n Name) Matches(device Name) bool {
	return (!n.HasJob || device.HasJob && device.Job == n.Job) &&
		(!n.HasReplica || device.HasReplica && device.Replica == n.Replica) &&
		(!n.HasTask || device.HasTask && device.Task == n.Task) &&
		(!n.HasType || device.HasType && device.Type == n.Type) &&
		(!n.HasID || device.HasID && device.ID == n.ID)
}
