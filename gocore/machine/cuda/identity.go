// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"strings"
)

// uuid is a CUuuid: sixteen bytes, in the order in which they are printed.
type uuid [16]byte

func (u uuid) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// uuidName returns a device's UUID as NVIDIA's tools print it. The driver has no call that identifies MIG instances;
// they are recognized by a UUID that differs from the card's, or by the model's name.
func uuidName(card, instance uuid, model string) string {
	if instance != card || strings.Contains(model, " MIG ") {
		return "MIG-" + instance.String()
	}
	return "GPU-" + card.String()
}

// leastUrgent and mostUrgent are the bounds of stream priorities; see the package comment.
const (
	leastUrgent      = 0
	mostUrgent       = -5 // for compute capability 7.0 and newer
	mostUrgentBefore = -2
)

func priorityRange(supported bool, computeMajor int) (least, greatest int) {
	switch {
	case !supported:
		return 0, 0
	case computeMajor < 7:
		return leastUrgent, mostUrgentBefore
	}
	return leastUrgent, mostUrgent
}
