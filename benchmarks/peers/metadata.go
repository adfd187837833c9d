package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"

	"gpuconf/tests_go/pool/traces"
)

// Host memory is measured in a separate process for each contender, as the growth of its resident set from before the
// pool was opened to after the warm-up, without the slots of the loop.

// footprint is host memory in bytes.
type footprint struct {
	Bytes  int64 `json:"bytes"`
	Blocks int   `json:"blocks"`
}

// footprintOf measures in a child. poolBytes 0: the trace's own.
func footprintOf(c contender, law string, poolBytes uint64, objects []string) (f footprint, err error) {
	child := exec.Command(os.Args[0],
		append([]string{"-footprint", c.name, "-law", law, "-pool", strconv.FormatUint(poolBytes, 10)}, objects...)...)
	var out, complaints bytes.Buffer
	child.Stdout, child.Stderr = &out, &complaints
	if err := child.Run(); err != nil {
		return f, fmt.Errorf("%w: %s", err, complaints.String())
	}
	err = json.Unmarshal(out.Bytes(), &f)
	return f, err
}

// measureFootprint is the child's part.
func measureFootprint(c contender, trace *traces.Trace, poolBytes uint64) (f footprint, err error) {
	if poolBytes == 0 {
		poolBytes = trace.LimitBytes
	}
	debug.FreeOSMemory()
	before, err := resident()
	if err != nil {
		return f, err
	}
	p, err := c.open(poolBytes, trace.Blocks)
	if err != nil {
		return f, err
	}
	defer p.close()
	if _, err := p.run(trace.Ops[:trace.Warm], nil, nil); err != nil {
		return f, err
	}
	debug.FreeOSMemory()
	after, err := resident()
	return footprint{after - before - int64(p.count().loop), liveAfter(trace.Ops[:trace.Warm])}, err
}

func liveAfter(ops []traces.Op) (blocks int) {
	for _, op := range ops {
		if op.Bytes != 0 {
			blocks++
		} else {
			blocks--
		}
	}
	return blocks
}

// resident returns the process's resident memory, in bytes.
func resident() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, pages int64
	_, err = fmt.Sscan(string(text), &size, &pages)
	return pages * int64(os.Getpagesize()), err
}

// available returns the machine's available memory, in bytes.
func available() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		var kib int64
		if n, _ := fmt.Sscanf(string(line), "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
