// SPDX-License-Identifier: Apache-2.0

package graph

import "gpuconf/gocore/machine/gpu"

// operation is an operation that is ready to run: its device and its result's type and shape are known.
type operation struct {
	op     Op
	attrs  attrs
	dtype  gpu.DType
	shape  Shape
	device int
}

// compute runs an operation, whose operands are in the memory that it works in.
func (d *Devices) compute(o operation, in []*Tensor) (*Tensor, error) {
	memory := d.memoryFor(o.op, o.dtype, o.device)
	switch {
	case o.op == Const:
		return d.upload(o.attrs.value, o.device, memory)
	case o.op == Identity, o.op == AddN && len(in) == 1:
		return in[0].share(o.device), nil
	}
	out, err := d.newTensor(o.dtype, o.shape, o.device, memory)
	if err != nil {
		return nil, err
	}
	if out.buffer.bytes == 0 {
		return out, nil
	}
	if err := o.run(d.list[memory].Compute(), out, in); err != nil {
		return nil, firstError(err, out.Release)
	}
	return out, nil
}

// run computes into out, which is not empty.
func (o operation) run(compute gpu.Compute, out *Tensor, in []*Tensor) error {
	switch o.op {
	case MatMul:
		rows, inner := matrixSize(in[0].shape, o.attrs.transposeA)
		return compute.Gemm(gpu.Gemm{
			DType: o.dtype, M: uint64(rows), N: uint64(o.shape[1]), K: uint64(inner),
			TransA: o.attrs.transposeA, TransB: o.attrs.transposeB,
			A: in[0].address(), B: in[1].address(), C: out.address(),
		})
	case Add:
		return addBroadcast(compute, o.dtype, out, in[0], in[1])
	}
	return addAll(compute, o, out, in)
}

// addAll adds two or more tensors of the same shape, from left to right.
func addAll(compute gpu.Compute, o operation, out *Tensor, in []*Tensor) error {
	sum := in[0]
	for _, next := range in[1:] {
		err := compute.Add(gpu.Add{
			DType: o.dtype, Count: o.shape.elements(),
			Out: gpu.Vector{Addr: out.address(), Step: 1},
			A:   gpu.Vector{Addr: sum.address(), Step: 1},
			B:   gpu.Vector{Addr: next.address(), Step: 1},
		})
		if err != nil {
			return err
		}
		sum = out
	}
	return nil
}
