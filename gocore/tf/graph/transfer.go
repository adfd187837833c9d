// SPDX-License-Identifier: Apache-2.0

package graph

// stagingBytes is the size of the host buffer for copies between devices.
const stagingBytes = 1 << 20

// upload creates a tensor from a value.
func (d *Devices) upload(v Value, device, memory int) (*Tensor, error) {
	t, err := d.newTensor(v.DType, v.Shape, device, memory)
	if err != nil {
		return nil, err
	}
	if err := t.fill(v); err != nil {
		return nil, firstError(err, t.Release)
	}
	return t, nil
}

// fill writes a value into a new tensor.
func (t *Tensor) fill(v Value) error {
	to := t.buffer
	if to.bytes == 0 {
		return nil
	}
	if uint64(len(v.Bytes)) == to.bytes {
		return to.device.CopyFromHost(to.at, 0, v.Bytes)
	}
	return pieces(to.bytes, func(offset uint64, staged []byte) error {
		v.piece(staged, offset)
		return to.device.CopyFromHost(to.at, offset, staged)
	})
}

// copyTo creates a tensor with the same contents in another device's memory.
func (t *Tensor) copyTo(memory int) (*Tensor, error) {
	out, err := t.devices.newTensor(t.dtype, t.shape, memory, memory)
	if err != nil {
		return nil, err
	}
	from, to := t.buffer, out.buffer
	err = pieces(from.bytes, func(offset uint64, staged []byte) error {
		if err := from.device.CopyToHost(staged, from.at, offset); err != nil {
			return err
		}
		return to.device.CopyFromHost(to.at, offset, staged)
	})
	if err != nil {
		return nil, firstError(err, out.Release)
	}
	return out, nil
}

// pieces calls move for each piece of at most stagingBytes.
func pieces(bytes uint64, move func(offset uint64, staged []byte) error) error {
	staged := make([]byte, min(bytes, stagingBytes))
	for offset := uint64(0); offset < bytes; offset += stagingBytes {
		if err := move(offset, staged[:min(bytes-offset, stagingBytes)]); err != nil {
			return err
		}
	}
	return nil
}
