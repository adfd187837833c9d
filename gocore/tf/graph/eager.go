// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
)

// Call is an operation to run eagerly.
type Call struct {
	Op     Op        // the operation
	Name   string    // the name of the operation, for errors; may be ""
	Inputs []*Tensor // in the order of its arguments

	TransposeA, TransposeB bool  // arguments of MatMul
	Value                  Value // the argument of Const

	Device        string // the scope in effect, as returned by devname.EnterScope; "" for none
	SoftPlacement bool   // whether the operation may run on another device if the named one cannot run it
	Policy        Policy // what to do with inputs that are in the memory of another device
}

// Outcome is the result of a call. The caller releases the tensor.
type Outcome struct {
	Tensor   *Tensor  // the result
	Copies   int      // inputs that were copied from another memory
	Warnings []string // the policy's warnings about them
}

// usualInputs is the number of inputs of most operations.
const usualInputs = 2

// Execute places and runs one operation. If it fails, it holds no memory.
func (d *Devices) Execute(c Call) (Outcome, error) {
	outcome, err := d.execute(c)
	switch {
	case err != nil && c.Op == Const && status.CodeOf(err) == status.InvalidArgument:
		return Outcome{}, err // TensorFlow places a constant before it makes the operation, and does not name it
	case err != nil:
		return Outcome{}, status.Errorf(status.CodeOf(err), "%w [Op:%s] name: %s", err, c.Op.v2Name(), c.Name)
	}
	return outcome, nil
}

func (d *Devices) execute(c Call) (outcome Outcome, err error) {
	inputs, err := d.holdAll(c.Inputs)
	defer func() {
		if releaseErr := c.releaseAll(inputs); err == nil {
			err = releaseErr
		}
		if err != nil {
			err = firstError(err, outcome.Tensor.Release)
		}
	}()
	if err != nil {
		return Outcome{}, err
	}
	o, err := c.infer()
	if err != nil {
		return Outcome{}, err
	}
	if o.device, err = d.placed(c, o); err != nil {
		return Outcome{}, err
	}
	memory := d.memoryFor(o.op, o.dtype, o.device)
	for i, input := range inputs {
		if input.memory == memory {
			continue
		}
		if err := d.judge(c, i, input, memory, o.device, &outcome); err != nil {
			return Outcome{}, err
		}
		moved, err := input.copyTo(memory)
		if err != nil {
			return Outcome{}, err
		}
		inputs[i] = moved
		outcome.Copies++
		if err := input.unhold(); err != nil {
			return Outcome{}, err
		}
	}
	outcome.Tensor, err = d.compute(o, inputs)
	return outcome, err
}

// holdAll keeps the inputs from being released meanwhile. The caller must pass the result to releaseAll, also after an
// error.
func (d *Devices) holdAll(inputs []*Tensor) (tensors []*Tensor, err error) {
	tensors = make([]*Tensor, 0, len(inputs))
	for i, input := range inputs {
		if input == nil {
			return tensors, status.Errorf(status.InvalidArgument, "input #%d is not a tensor", i)
		}
		if input.devices != d {
			return tensors, status.Errorf(status.InvalidArgument, "input #%d is a tensor of another runtime, or was "+
				"created before a reset", i)
		}
		if err := input.hold(); err != nil {
			return tensors, err
		}
		tensors = append(tensors, input)
	}
	return tensors, nil
}

// releaseAll ends holdAll. Held inputs may have been replaced by copies, which are released.
func (c Call) releaseAll(held []*Tensor) error {
	var err error
	for i, t := range held {
		if t == c.Inputs[i] {
			err = firstError(err, t.unhold)
		} else {
			err = firstError(err, t.Release)
		}
	}
	return err
}

// infer checks that the inputs are consistent and determines the result's type and shape.
func (c Call) infer() (operation, error) {
	o := operation{op: c.Op, attrs: attrs{c.TransposeA, c.TransposeB, c.Value}}
	if _, known := kernels[c.Op]; !known || c.Op == Placeholder || c.Op == NoOp {
		return o, status.Errorf(status.NotFound, "Could not find device for node: {{node %s}} = %s[]\nAll kernels "+
			"registered for op %s:\n%s",
			c.nodeName(), c.Op, c.Op, describeKernels(c.Op))
	}
	if err := checkArity(c.Op, len(c.Inputs)); err != nil {
		return o, err
	}
	if c.Op == Const {
		o.dtype, o.shape = c.Value.DType, slices.Clone(c.Value.Shape)
		o.attrs.value.Shape = o.shape
		return o, c.Value.check()
	}
	// With this capacity, which is constant, the slices of most calls are on the stack.
	types, shapes := make([]gpu.DType, 0, usualInputs), make([]Shape, 0, usualInputs)
	for _, input := range c.Inputs {
		types, shapes = append(types, input.dtype), append(shapes, input.shape)
	}
	if err := checkEagerTypes(c.Op, types); err != nil {
		return o, err
	}
	if reason := eagerReason(c.Op, o.attrs, shapes); reason != "" {
		return o, status.Errorf(status.InvalidArgument, "%s", reason)
	}
	o.dtype = types[0]
	o.shape = resultShape(c.Op, o.attrs, shapes)
	return o, o.shape.check(o.dtype)
}

func (c Call) nodeName() string {
	if c.Name != "" {
		return c.Name
	}
	return string(c.Op)
}

// lastPlaced is where the last call of an operation ran. It depends only on what is here.
type lastPlaced struct {
	scope  string
	dtype  gpu.DType
	soft   bool
	device int
}

// placed is placeCall, which parses the scope, unless the last call of the operation was placed alike.
func (d *Devices) placed(c Call, o operation) (int, error) {
	last := d.placements[o.op]
	if p := last.Load(); p != nil && p.scope == c.Device && p.dtype == o.dtype && p.soft == c.SoftPlacement {
		return p.device, nil
	}
	device, err := d.placeCall(c, o)
	if err == nil {
		last.Store(&lastPlaced{c.Device, o.dtype, c.SoftPlacement, device})
	}
	return device, err
}

// placeCall finds the device for one operation: the first that satisfies the scope, or under soft placement the first
// of the scope's job, replica and task.
func (d *Devices) placeCall(c Call, o operation) (int, error) {
	pattern, readable := devname.ParseFullName(c.Device)
	if c.Op == Const && strings.Contains(c.Device, "/device:CPU:0") && !(readable && d.anyMatches(pattern)) {
		// TensorFlow first converts a value to a tensor on CPU:0, which only looks up the name.
		return 0, status.Errorf(status.InvalidArgument, "%s unknown device.", c.Device)
	}
	if !readable {
		return 0, status.Errorf(status.InvalidArgument, "Malformed device specification '%s' in eager op: Name: %s",
			c.Device, c.Op.v2Name())
	}
	types := supportedTypes(o.op, o.dtype)
	device := d.find(pattern, types)
	if device < 0 && c.SoftPlacement {
		device = d.find(soften(pattern), types)
	}
	if device >= 0 {
		return device, nil
	}
	soft := 0
	if c.SoftPlacement {
		soft = 1
	}
	supported := strings.Join(d.typesPresent(types), ", ")
	if c.Device == "" {
		return 0, status.Errorf(status.InvalidArgument, "No supported device found in available devices [%s]. "+
			"enable_soft_placement=%d. Supported devices types [%s].", d.preferredNames(), soft, supported)
	}
	return 0, status.Errorf(status.InvalidArgument, "Could not satisfy device specification '%s'. "+
		"enable_soft_placement=%d. Supported device types [%s]. All available devices [%s].",
		pattern, soft, supported, d.preferredNames())
}

// typesPresent lists the types of a set that have a device.
func (d *Devices) typesPresent(types typeSet) (present []string) {
	for _, deviceType := range typesByPriority {
		if slices.Contains(d.types, types&setOf(deviceType)) {
			present = append(present, deviceType)
		}
	}
	return present
}

// judge applies the policy to the copy of an input.
func (d *Devices) judge(c Call, index int, input *Tensor, memory, device int, outcome *Outcome) error {
	if c.Op == Identity {
		return nil
	}
	where := fmt.Sprintf("input #%d was expected to be on %s but is actually on %s (operation running on %s)",
		index, d.texts[memory], d.texts[input.memory], d.texts[device])
	switch c.Policy.verdict(input.dtype) {
	case refuse:
		return status.Errorf(status.InvalidArgument, "Tensors on conflicting devices: cannot compute %s as %s Tensors "+
			"can be copied explicitly using: `with tf.device(device_name): x = tf.identity(x)` or transparently "+
			"copied by using tf.config.experimental.set_device_policy('silent'). Copying tensors between devices may "+
			"slow down your model", c.Op.v2Name(), where)
	case warn:
		outcome.Warnings = append(outcome.Warnings,
			fmt.Sprintf("before computing %s %s. This triggers a copy which can be a "+
				"performance bottleneck.", c.Op.v2Name(), where))
	}
	return nil
}
