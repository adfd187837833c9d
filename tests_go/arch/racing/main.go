// Command racing prints what go test -race has to run: the tests that reach goroutines, and their folders.
package main

import (
	"fmt"
	"log"
	"strings"

	"gpuconf/tests_go/arch"
)

func main() {
	files, err := arch.ReadTree(".", "gocore", "pybind", "tests_go")
	if err != nil {
		log.Fatal(err)
	}
	tests, folders := arch.Racing(arch.WithoutCompilers(files))
	fmt.Printf("-run ^(%s)$ ./%s\n", strings.Join(tests, "|"), strings.Join(folders, " ./"))
}
