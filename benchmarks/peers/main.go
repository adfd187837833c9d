package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"gpuconf/tests_go/pool/traces"
)

// taskRecorded is a part of a run.
const taskRecorded = "recorded"

// options are the command line's. Its arguments are the contenders' shared objects.
type options struct {
	task       string
	rounds     int
	minimalloc string
	footprint  string
	law        string
	pool       uint64
}

func main() {
	var o options
	flag.StringVar(&o.task, "task", "all", "all; recorded: only the recorded runs; or verify: every contender "+
		"does small traces, and nothing is timed")
	flag.IntVar(&o.rounds, "rounds", 7, "in which the contenders take turns")
	flag.StringVar(&o.minimalloc, "minimalloc", "", "folder of MiniMalloc's problems")
	flag.StringVar(&o.footprint, "footprint", "", "measure one contender's host memory")
	flag.StringVar(&o.law, "law", footprintLaw, "for -footprint")
	flag.Uint64Var(&o.pool, "pool", 0, "bytes, for -footprint; 0: the law's")
	flag.Parse()
	if err := run(o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options, objects []string) error {
	b := &bench{contenders: ours(), rounds: o.rounds, minimalloc: o.minimalloc, begin: time.Now()}
	b.result.Missing = map[string]string{}
	for _, path := range objects {
		list, err := load(path)
		if err != nil {
			b.result.Missing[path] = err.Error()
			continue
		}
		b.contenders = append(b.contenders, list...)
		b.objects = append(b.objects, path)
	}
	switch {
	case o.footprint != "":
		return b.footprint(o)
	case o.task == "verify":
		return b.verify()
	case o.task != "all" && o.task != taskRecorded:
		return fmt.Errorf("-task %s: it is all, recorded or verify", o.task)
	}
	if err := b.run(o.task); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(b.result)
}

func (b *bench) footprint(o options) error {
	trace := lawNamed(o.law)
	for _, c := range b.contenders {
		if c.league == equal && c.name == o.footprint && trace != nil {
			f, err := measureFootprint(c, trace, o.pool)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(f)
		}
	}
	return fmt.Errorf("there is no contender %q of equal interface, or no law %q", o.footprint, o.law)
}

// verify prints a line for each contender and trace, separated by tabs: the league, the contender, the trace, the peak
// of live bytes and the memory it needed. It fails if a contender does, and if an object cannot be opened.
func (b *bench) verify() error {
	var failures []error
	for path, why := range b.result.Missing {
		failures = append(failures, fmt.Errorf("%s: %s", path, why))
	}
	list := []traces.Trace{traces.Churn("churn", 300, 3_000, 512, 64<<10), traces.Random("random", 3_000, 64<<20)}
	for _, p := range packings()[3:5] {
		list = append(list, p.trace)
	}
	for _, trace := range list {
		for _, c := range b.contenders {
			place, err := c.verify(&trace)
			if err != nil {
				failures = append(failures, fmt.Errorf("%s, %s league, %s: %w", c.name, c.league, trace.Name, err))
				continue
			}
			fmt.Printf("%s\t%s\t%s\t%d\t%d\n", c.league, c.name, trace.Name, trace.PeakBytes, place.needed())
		}
	}
	return errors.Join(failures...)
}
