// Package seeded gives rapid's random tests the same inputs in every run. A package of tests that uses rapid imports it.
//
// A run of the ordinary tests then has one result for one state of the sources. `make soak` sets SOAK_RAPID to a number of inputs for
// each test, drawn anew. A failure prints the seed: -rapid.seed repeats it.
package seeded

import (
	"cmp"
	"flag"
	"os"
)

import _ "pgregory.net/rapid" // defines the flags

func init() {
	inputs := os.Getenv("SOAK_RAPID")
	seed := "1"
	if inputs != "" {
		seed = "0" // a random one
	}
	for name, value := range map[string]string{"rapid.seed": seed, "rapid.checks": cmp.Or(inputs, "100")} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}
