// Command mutants prints the places of a Go package where run.py may change the code, as JSON: comparisons, constants,
// conditions, returned errors and calls for their effect.
//
//	go run ./tests_go/mutants gocore/pool/bfc
package main

import (
	"encoding/json"
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mutants FOLDER")
		os.Exit(2)
	}
	sites, err := sitesBelow(os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(sites)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sitesBelow returns the sites of the files that tests are built from, in order.
func sitesBelow(folder string) ([]Site, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	target := build.Default
	target.BuildTags = append(target.BuildTags, "invariants")
	var all []Site
	for _, path := range paths {
		built, err := target.MatchFile(folder, filepath.Base(path))
		if err != nil {
			return nil, err
		}
		if !built || strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		sites, err := SitesOf(filepath.ToSlash(path), source)
		if err != nil {
			return nil, err
		}
		all = append(all, sites...)
	}
	return all, nil
}
