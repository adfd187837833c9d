package graph

import "fmt"

// MappingLines is the block "Device mapping:", a line each for the devices that have something behind them to tell.
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

// placementLine tells where a node of a graph was put: "MatMul: /job:localhost/replica:0/task:0/gpu:0".
func placementLine(n *Node, d *Devices, device int) string {
	return n.name + ": " + v1Name(d.names[device])
}

// ExecutingLine tells where an eager operation runs, as TensorFlow 2 does.
func (d *Devices) ExecutingLine(op Op, t *Tensor) string {
	return fmt.Sprintf("Executing op %s in device %s", op.v2Name(), t.Device())
}
