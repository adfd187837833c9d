// Command goroutines prints the packages that `make race` tests, for go test: those whose tests reach goroutines.
package main

import (
	"fmt"
	"os"

	"gpuconf/tests_go/arch"
)

func main() {
	files, err := arch.ReadTree(".", "gocore", "pybind", "tests_go")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, folder := range arch.PackagesWithGoroutines(files) {
		fmt.Println("./" + folder)
	}
}
