package plan

import (
	"errors"
	"slices"
	"strings"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/status"
	"gpuconf/gocore/suballoc"
)

// Policy is a way to configure a pool.
type Policy string

// The policies, and the settings with which gpuconf or TensorFlow uses them.
const (
	TensorFlow Policy = "tensorflow" // TensorFlow's allocator with memory growth: its splitting, regions that double
	Regions    Policy = "regions"    // gpuconf without memory growth: exact splitting, the whole limit in one region
	Virtual    Policy = "virtual"    // gpuconf with memory growth: exact splitting, memory mapped granule by granule
)

// Policies returns all policies.
func Policies() []Policy { return []Policy{TensorFlow, Regions, Virtual} }

// ParsePolicy returns the policy with the given name.
func ParsePolicy(name string) (Policy, error) {
	if p := Policy(name); slices.Contains(Policies(), p) {
		return p, nil
	}
	var names []string
	for _, p := range Policies() {
		names = append(names, string(p))
	}
	return "", status.Errorf(status.InvalidArgument, "unknown policy %q: expected one of %s", name, strings.Join(names, ", "))
}

// pool is an allocator over a device that counts.
type pool struct {
	*bfc.Allocator
	device  *device
	virtual *suballoc.Virtual // nil unless the policy is Virtual
}

func newPool(policy Policy, limitBytes uint64, card Card) (*pool, error) {
	p := &pool{device: newDevice(card)}
	opts := bfc.Options{Name: string(policy), GarbageCollect: true}
	var sub bfc.SubAllocator
	var err error
	switch policy {
	case TensorFlow:
		opts.Split.TensorFlow = true
		sub = suballoc.NewRegions(p.device, suballoc.Options{LimitBytes: limitBytes, Growth: true})
	case Virtual:
		p.virtual, err = suballoc.NewVirtual(p.device, suballoc.VirtualOptions{LimitBytes: limitBytes})
		sub = p.virtual
	default:
		sub = suballoc.NewRegions(p.device, suballoc.Options{LimitBytes: limitBytes})
	}
	if err != nil {
		return nil, err
	}
	if p.Allocator, err = bfc.New(sub, opts); err != nil {
		return nil, errors.Join(err, p.closeRange())
	}
	return p, nil
}

func (p *pool) close() error { return errors.Join(p.Allocator.Close(), p.closeRange()) }

func (p *pool) closeRange() error {
	if p.virtual == nil {
		return nil
	}
	return p.virtual.Close()
}
