package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gpuconf/tests_go/pool/traces"
)

// A problem of MiniMalloc is a file of lifetimes, id,lower,upper,size, whose optimal placement is known: it is in the
// file's name. A unit becomes 16 KiB here, so that the problems are as large as GPUs and every size is whole granules
// of 2 MiB.
const minimallocUnit = 16 << 10

// problem is a trace with a known optimum.
type problem struct {
	trace   traces.Trace
	kind    string
	optimum uint64
}

// minimalloc reads the problems of a folder.
func minimalloc(folder string) ([]problem, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.csv"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no problems of MiniMalloc (*.csv) are in %s", folder)
	}
	var list []problem
	for _, path := range paths {
		lifetimes, err := readLifetimes(path)
		if err != nil {
			return nil, err
		}
		name, optimum, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".csv"), ".")
		units, err := strconv.ParseUint(optimum, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: the name has no optimum: NAME.UNITS.csv is expected", path)
		}
		list = append(list, problem{inRoom(traces.Lifetimes(name, lifetimes)), "minimalloc", units * minimallocUnit})
	}
	return list, nil
}

func readLifetimes(path string) ([]traces.Lifetime, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != "id,lower,upper,size" {
		return nil, fmt.Errorf("%s: its first line is not id,lower,upper,size", path)
	}
	var list []traces.Lifetime
	for i, row := range rows[1:] {
		var numbers [3]uint64
		for k := range numbers {
			if numbers[k], err = strconv.ParseUint(row[k+1], 10, 40); err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", path, i+2, err)
			}
		}
		list = append(list, traces.Lifetime{Lower: numbers[0], Upper: numbers[1], Bytes: numbers[2] * minimallocUnit})
	}
	return list, nil
}

// packings are our own problems.
func packings() []problem {
	var list []problem
	for seed := range uint64(8) {
		kind := "guillotine"
		if seed >= 4 {
			kind = "pinwheel"
		}
		name := fmt.Sprintf("%s-%d", kind, seed%4+1)
		list = append(list, problem{inRoom(traces.Lifetimes(name, traces.Packing(seed+1, 300, seed < 4))), kind,
			traces.PackingBytes})
	}
	return list
}

// inRoom returns a trace with a pool that no contender fills.
func inRoom(trace traces.Trace) traces.Trace {
	trace.LimitBytes = 3 * trace.PeakBytes
	return trace
}
