package main

// result is the output of a run; run.py makes the page from it.
type result struct {
	ClockNanos map[string]float64 `json:"clock_ns"` // of reading it once, by reader
	Missing    map[string]string  `json:"missing"`  // objects that could not be opened, with the reason
	Out        []exclusion        `json:"out"`
	Laws       []lawResult        `json:"laws"`
	Small      []lawResult        `json:"small"`
	Slope      []lawResult        `json:"slope"`
	Floor      floor              `json:"floor"`
	Threads    []threadsResult    `json:"threads"`
	Footprints []footprintResult  `json:"footprints"`
	Needs      []needsResult      `json:"needs"`
	Recorded   []recordedResult   `json:"recorded"`
}

// exclusion is a contender that failed its verification, or did not run.
type exclusion struct {
	Name   string `json:"name"`
	League league `json:"league"`
	Trace  string `json:"trace"`
	Why    string `json:"why"`
	Broken bool   `json:"broken"`
}

type lawResult struct {
	Name      string                       `json:"name"`
	Blocks    int                          `json:"blocks"`
	PeakBytes uint64                       `json:"peak_bytes"`
	Leagues   map[league]map[string]timing `json:"leagues"`
}

type footprintResult struct {
	Name string `json:"name"`
	Law  string `json:"law"`
	footprint
}

// needsResult is the device memory that a trace needs, in bytes.
type needsResult struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"` // law, guillotine, pinwheel, minimalloc
	PeakBytes uint64            `json:"peak_bytes"`
	Optimum   uint64            `json:"optimum"` // 0: not known
	Needed    map[string]uint64 `json:"needed"`
}

// threadsResult is the race of one number of threads.
type threadsResult struct {
	Threads int                      `json:"threads"`
	Each    bool                     `json:"each"` // each thread has a pool of its own; otherwise all share one
	Times   map[string]threadsTiming `json:"times"`
}
