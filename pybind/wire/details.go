// SPDX-License-Identifier: Apache-2.0

package wire

// DeviceDetails is what is known of a physical device.
type DeviceDetails struct {
	Name       string `py:"device_name"` // the product
	Major      int    `py:"major"`       // of the compute capability
	Minor      int    `py:"minor"`       // of the compute capability
	TotalBytes uint64 `py:"total_bytes"` // its memory
	UUID       string `py:"uuid"`        // "GPU-..." or "MIG-..."
}
