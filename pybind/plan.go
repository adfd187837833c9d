package pybind

import (
	"slices"
	"time"

	"gpuconf/gocore/config"
	"gpuconf/gocore/plan"
	"gpuconf/gocore/sim"
	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
	"gpuconf/pybind/runtime"
)

// planRequest is what Python asks for. Sizes are bytes, 0 for none.
type planRequest struct {
	Limit    uint64     `json:"limit"`
	GPU      string     `json:"gpu"`      // a model, as sim.ParseSpec reads one; "": any
	Policies []string   `json:"policies"` // empty: all that the GPU can
	Env      config.Env `json:"env"`      // for the default limit of a GPU
}

// resolve finds the GPU, its default limit where no other is asked for, and the policies.
func (r planRequest) resolve() (wanted plan.Request, notices []config.Notice, err error) {
	wanted.LimitBytes = r.Limit
	if r.GPU != "" {
		card, err := cardOf(r.GPU)
		if err != nil {
			return wanted, nil, err
		}
		wanted.Card = plan.Card{Name: card.Model.Product, MemoryBytes: card.MemoryBytes, GranuleBytes: card.Model.GranularityBytes}
		if r.Limit == 0 {
			memory := config.Memory{AvailableBytes: card.MemoryBytes, TotalBytes: card.MemoryBytes, ComputeMajor: card.Model.ComputeMajor}
			if wanted.LimitBytes, notices, err = config.DefaultLimit(memory, r.Env); err != nil {
				return wanted, nil, err
			}
		}
	}
	wanted.Policies, err = r.policies(r.GPU != "" && wanted.Card.GranuleBytes == 0)
	return wanted, notices, err
}

// policies finds those that are asked for by their names. Asked for none it gives all, without virtual where the GPU can't.
func (r planRequest) policies(noVirtual bool) (policies []plan.Policy, err error) {
	for _, name := range r.Policies {
		policy, err := plan.ParsePolicy(name)
		if err != nil {
			return nil, err
		}
		if policy == plan.Virtual && noVirtual {
			return nil, status.Errorf(status.InvalidArgument, "%s has no virtual memory management: policy %s is not for it", r.GPU, policy)
		}
		policies = append(policies, policy)
	}
	if len(policies) > 0 {
		return policies, nil
	}
	return slices.DeleteFunc(plan.Policies(), func(p plan.Policy) bool { return p == plan.Virtual && noVirtual }), nil
}

func cardOf(text string) (sim.Card, error) {
	spec, err := sim.ParseSpec(text)
	if err != nil {
		return sim.Card{}, err
	}
	if len(spec.Cards) != 1 {
		return sim.Card{}, status.Errorf(status.InvalidArgument, "%q names %d GPUs; a plan is for one", text, len(spec.Cards))
	}
	return spec.Cards[0], nil
}

// OpenPlan prepares to find out whether a trace, as CSV, would fit: {"plan": number for ContinuePlan, "notices": [[level, text], ...]}.
func OpenPlan(text string, request string) (opened string, err error) {
	defer runtime.Gate(&err)
	if err := runtime.Alive(); err != nil {
		return "", err
	}
	var asked planRequest
	if err := decode(request, &asked); err != nil {
		return "", err
	}
	wanted, notices, err := asked.resolve()
	if err != nil {
		return "", err
	}
	events, err := trace.ParseCSV(text)
	if err != nil {
		return "", err
	}
	job, err := plan.New(events, wanted)
	if err != nil {
		return "", err
	}
	said := [][2]string{}
	for _, n := range notices {
		said = append(said, [2]string{n.Level, n.Text})
	}
	return encode(map[string]any{"plan": runtime.PlanJobs().Open(job), "notices": said})
}

// ContinuePlan works on a plan for about so many milliseconds, at most 100, or one replay. It gives "" as long as there is more to do; then
// {"limit": bytes, "gpu": name, "memory": bytes, "usage": [plan.Usage], "results": [plan.Result]}.
func ContinuePlan(id int64, milliseconds int64) (report string, err error) {
	defer runtime.Gate(&err)
	if err := runtime.Alive(); err != nil {
		return "", err
	}
	until := time.Now().Add(time.Duration(min(max(milliseconds, 0), maxWaitMS)) * time.Millisecond)
	err = runtime.PlanJobs().Use(id, func(job *plan.Job) error {
		for {
			done, err := job.Step()
			if err == nil && done {
				report, err = reportOf(job)
			}
			if err != nil || done || !time.Now().Before(until) {
				return err
			}
		}
	})
	return report, err
}

func reportOf(job *plan.Job) (string, error) {
	r := job.Request()
	return encode(map[string]any{
		"limit": r.LimitBytes, "gpu": r.Card.Name, "memory": r.Card.MemoryBytes, "usage": job.Usages(), "results": job.Results(),
	})
}

// ClosePlan forgets a plan.
func ClosePlan(id int64) (done bool, err error) {
	defer runtime.Gate(&err)
	if err := runtime.Alive(); err != nil {
		return false, err
	}
	runtime.PlanJobs().Close(id)
	return true, nil
}
