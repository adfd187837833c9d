// SPDX-License-Identifier: Apache-2.0

package graph

import "fmt"

// MappingLines returns the block "Device mapping:", with one line for each device that has a description.
func (d *Devices) MappingLines() []string {
	lines := []string{"Device mapping:"}
	for i, device := range d.list {
		if description := device.Description(); description != "" {
			lines = append(lines, fmt.Sprintf("%s -> %s", v1Name(d.names[i]), description))
		}
	}
	if len(lines) == 1 {
		return []string{"Device mapping: no known devices."}
	}
	return lines
}

// placementLine returns the log line of a node's placement: "MatMul: /job:localhost/replica:0/task:0/gpu:0".
func placementLine(n *Node, d *Devices, device int) string {
	return n.name + ": " + v1Name(d.names[device])
}

// ExecutingLine returns TensorFlow 2's log line of an eager operation's device.
func (d *Devices) ExecutingLine(op Op, t *Tensor) string {
	return fmt.Sprintf("Executing op %s in device %s", op.v2Name(), t.Device())
}
