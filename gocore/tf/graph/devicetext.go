// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"strconv"
	"strings"

	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
)

// v1Name formats a name as in TensorFlow 1: "/job:localhost/replica:0/task:0/gpu:0". Types other than CPU and GPU had
// no such form.
func v1Name(n devname.Name) string {
	if n.Type != "CPU" && n.Type != "GPU" {
		return n.String()
	}
	id := "*"
	if n.HasID {
		id = strconv.Itoa(int(n.ID))
	}
	return soften(n).String() + "/" + strings.ToLower(n.Type) + ":" + id
}

// DescribeGPU describes a GPU for the device mapping: "device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0".
func DescribeGPU(device gpu.Device) string {
	return fmt.Sprintf("device: %d, name: %s, pci bus id: %s", device.Ordinal, device.Name, device.PCIBusID)
}
