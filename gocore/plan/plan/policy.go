// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/plan/caching"
)

// Policy is a way to manage a GPU's memory.
type Policy string

// The policies, and the settings with which TensorFlow, gpuconf or PyTorch uses them.
const (
	// TensorFlow is TensorFlow's allocator with memory growth: its splitting, and regions that double.
	TensorFlow Policy = "tensorflow"
	// Regions is gpuconf without memory growth: exact splitting, and the whole limit in one region.
	Regions Policy = "regions"
	// Virtual is gpuconf with memory growth: exact splitting, and memory mapped granule by granule.
	Virtual Policy = "virtual"
	// PyTorch is PyTorch's allocator with the settings of the recorded run, if they are known, or with its defaults.
	PyTorch           Policy = "pytorch"
	PyTorchExpandable Policy = "pytorch-expandable" // with expandable segments
	PyTorchMaxSplit   Policy = "pytorch-max-split"  // with the max_split_size_mb that needs the least memory
	PyTorchRoundup    Policy = "pytorch-roundup"    // with the roundup_power2_divisions that need the least memory
)

// properties are what callers outside of a replay need to know of a policy.
type properties struct {
	policy       Policy
	of           string // whose allocator it is
	needsVirtual bool   // whether it needs virtual memory management, which some GPUs lack
}

// policies are all, in the order of a plan's results; of gpuconf's own that fit, a plan recommends the last.
// pybind/build/generate_tables.py writes Python's copy of this table.
var policies = []properties{
	{PyTorch, "PyTorch", false},
	{PyTorchExpandable, "PyTorch", true},
	{PyTorchMaxSplit, "PyTorch", false},
	{PyTorchRoundup, "PyTorch", false},
	{TensorFlow, "TensorFlow", false},
	{Regions, "gpuconf", false},
	{Virtual, "gpuconf", true},
}

// Policies returns all policies.
func Policies() []Policy {
	names := make([]Policy, len(policies))
	for i, p := range policies {
		names[i] = p.policy
	}
	return names
}

// ParsePolicy returns the policy with the given name.
func ParsePolicy(name string) (Policy, error) {
	if p := Policy(name); slices.Contains(Policies(), p) {
		return p, nil
	}
	var names []string
	for _, p := range Policies() {
		names = append(names, string(p))
	}
	return "", status.Errorf(status.InvalidArgument, "unknown policy %q: expected one of %s", name,
		strings.Join(names, ", "))
}

// NeedsVirtual reports whether the policy needs virtual memory management, which some GPUs lack.
func (p Policy) NeedsVirtual() bool { return p.properties().needsVirtual }

func (p Policy) pytorch() bool { return p.properties().of == "PyTorch" }

func (p Policy) properties() properties {
	return policies[slices.IndexFunc(policies, func(one properties) bool { return one.policy == p })]
}

// variant is a policy with settings. A policy with several is replayed with each, and the one with the smallest least
// limit counts.
type variant struct {
	policy   Policy
	settings caching.Settings
	byAge    bool   // ties
	text     string // what PYTORCH_CUDA_ALLOC_CONF needs for it; "": nothing
}

// The values that a search tries. PyTorch accepts no max_split_size_mb of 20 or less.
var (
	maxSplitsMiB     = []uint64{32, 64, 128, 256, 512, 1024}
	roundupDivisions = []uint64{16, 8, 4, 2} // mostly, the finest needs the least; the others then end early
)

// variants returns what to replay for a policy, given how the trace was recorded and its largest allocation.
func (p Policy) variants(request Request, largest uint64) (list []variant) {
	recorded, byAge := request.Recorded, request.TiesByAge
	switch p {
	case PyTorchExpandable:
		s := recorded
		s.ExpandableSegments = true
		list = append(list, variant{p, s, byAge, "expandable_segments:True"})
	case PyTorchMaxSplit:
		for _, size := range maxSplitsMiB {
			s := recorded
			s.MaxSplitBytes, s.ExpandableSegments = size*mib, false
			list = append(list, variant{p, s, byAge, fmt.Sprintf("max_split_size_mb:%d", size)})
			if s.MaxSplitBytes > s.LargestSegment(largest) {
				break // no block is that large, nor larger: the other values do the same
			}
		}
	case PyTorchRoundup:
		for _, divisions := range roundupDivisions {
			s := recorded
			s.RoundupDivisions, s.ExpandableSegments = caching.RoundupAll(divisions), false
			list = append(list, variant{p, s, byAge, fmt.Sprintf("roundup_power2_divisions:%d", divisions)})
		}
	default:
		list = append(list, variant{policy: p, settings: recorded, byAge: byAge})
	}
	return list
}
