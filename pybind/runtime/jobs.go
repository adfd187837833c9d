package runtime

import (
	"sync"

	"gpuconf/gocore/plan"
	"gpuconf/gocore/status"
)

// Jobs are the plans that are being worked on, by number.
type Jobs struct {
	mu   sync.Mutex
	last int64              // guarded by mu; the last number given
	open map[int64]*planJob // guarded by mu
}

// planJob is one of them. Its lock makes it one caller's at a time.
type planJob struct {
	sync.Mutex
	*plan.Job
}

var jobs Jobs

// PlanJobs gives the plans of this process.
func PlanJobs() *Jobs { return &jobs }

// Open keeps a job and gives its number.
func (j *Jobs) Open(job *plan.Job) (id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open == nil {
		j.open = map[int64]*planJob{}
	}
	j.last++
	j.open[j.last] = &planJob{Job: job}
	return j.last
}

// Use runs fn with a job, alone.
func (j *Jobs) Use(id int64, fn func(*plan.Job) error) error {
	j.mu.Lock()
	job := j.open[id]
	j.mu.Unlock()
	if job == nil {
		return status.Errorf(status.NotFound, "there is no plan %d", id)
	}
	job.Lock()
	defer job.Unlock()
	return fn(job.Job)
}

// Close forgets a job; one that is not there is no error.
func (j *Jobs) Close(id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.open, id)
}
