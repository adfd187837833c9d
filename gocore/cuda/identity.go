package cuda

import (
	"fmt"
	"strings"
)

// uuid is a CUuuid: sixteen bytes, in the order in which they are written.
type uuid [16]byte

func (u uuid) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// uuidName is a device's UUID as NVIDIA's tools write it. The driver has no call that tells MIG apart; a MIG instance is what has
// a UUID beside its card's. The name of the model also says it.
func uuidName(card, instance uuid, model string) string {
	if instance != card || strings.Contains(model, " MIG ") {
		return "MIG-" + instance.String()
	}
	return "GPU-" + card.String()
}

// leastUrgent and mostUrgent end the range of stream priorities; see the package comment.
const (
	leastUrgent      = 0
	mostUrgent       = -5 // from compute capability 7.0 on
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
