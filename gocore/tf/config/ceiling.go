// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
)

// Ceiling is the most memory that all pools of a process may have together on one GPU, whatever the configuration
// requests. The process inherits it in its environment; `gpuconf run` sets it to the memory that it has leased.
type Ceiling struct {
	Bytes uint64 // the maximum for all pools together; 0 if the GPU belongs to another rank; ignored unless Set
	Set   bool   // whether there is a ceiling
	lease bool   // whether a lease sets it: `gpuconf run`, not the user's own setting
	why   string // who has the rest, for the notice; "" if the process has all
}

// Ceiling returns the ceiling of the GPU with a CUDA ordinal, one of gpus: GPUCONF_LIMIT.
//
// The processes of a job share the ceiling by LOCAL_RANK, as torchrun numbers them: a process uses the GPU with its
// rank, modulo the number of GPUs. The ranks of a GPU have equal parts of it, and the others nothing. A GPU without a
// rank is shared by all. So the parts never add up to more than the ceiling.
func (e Env) Ceiling(ordinal, gpus int) (Ceiling, error) {
	text, set := e["GPUCONF_LIMIT"]
	if !set || text == "" {
		return Ceiling{}, nil
	}
	bytes, err := human.ParseSize(text)
	if err != nil {
		return Ceiling{}, status.Errorf(status.InvalidArgument, "GPUCONF_LIMIT=%q %w", text, err)
	}
	if bytes == 0 {
		return Ceiling{}, status.Errorf(status.InvalidArgument, "GPUCONF_LIMIT=%q must be more than 0 bytes", text)
	}
	c := Ceiling{Bytes: bytes, Set: true, lease: e["GPUCONF_LEASE"] != ""}
	rank, errRank := strconv.Atoi(e["LOCAL_RANK"])
	ranks, errRanks := strconv.Atoi(e["LOCAL_WORLD_SIZE"])
	if errRank != nil || errRanks != nil || rank < 0 || rank >= ranks || ranks == 1 || ordinal >= gpus {
		return c, nil
	}
	switch {
	case ordinal >= ranks: // no rank uses this GPU
		c.Bytes /= uint64(ranks)
		c.why = fmt.Sprintf("%d ranks share this GPU", ranks)
	case rank%gpus != ordinal:
		c.Bytes = 0
		c.why = fmt.Sprintf("this GPU belongs to LOCAL_RANK %d, and this process is LOCAL_RANK %d", ordinal, rank)
	default:
		if sharing := (ranks - ordinal + gpus - 1) / gpus; sharing > 1 {
			c.Bytes /= uint64(sharing)
			c.why = fmt.Sprintf("%d of %d ranks share this GPU", sharing, ranks)
		}
	}
	return c, nil
}

// Default returns the limit of one of a GPU's pools that evenly share it, if nothing requests another one.
func (c Ceiling) Default(shares int64) uint64 { return c.Bytes / uint64(max(shares, 1)) }

// Raise says how a limit that the ceiling sets can be raised: a clause for the end of a sentence.
func (c Ceiling) Raise() string {
	if c.Bytes == 0 {
		return "use the GPU of this process: " + c.why
	}
	text := "raise GPUCONF_LIMIT, which sets this limit (gpuconf config --explain shows from where)"
	if c.lease {
		text = "raise the lease's memory, which sets this limit (--memory of gpuconf run)"
	}
	if c.why != "" {
		text += "; " + c.why
	}
	return text
}

// Why says who has the rest of GPUCONF_LIMIT, as a clause; "" if the process has all of it.
func (c Ceiling) Why() string { return c.why }

// Lower returns a requested limit, or what is left below the ceiling if that is less, with a notice. taken is the sum
// of the limits of the other pools on the GPU.
func (c Ceiling) Lower(pool string, requested, taken uint64) (uint64, []Notice) {
	left := c.Bytes - min(taken, c.Bytes)
	if !c.Set || requested <= left {
		return requested, nil
	}
	why := c.why
	if why != "" {
		why = ": " + why
	}
	return left, []Notice{warning("The limit of %s is lowered from %s to %s, which GPUCONF_LIMIT leaves for it%s.",
		pool, human.Bytes(requested), human.Bytes(left), why)}
}
