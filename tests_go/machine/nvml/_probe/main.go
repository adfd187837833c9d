// A C library like those of Python's extensions, which contains only NVML. A leading "_" keeps it out of ./... .
package main

import "C"

import (
	"fmt"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/nvml"
)

func main() {}

// Returns the names of the GPUs, or the reason why there are none. The caller owns the text.
//
//export gpuconf_probe
func gpuconf_probe() *C.char {
	monitor, err := nvml.Open()
	if err != nil {
		return C.CString(status.CodeOf(err).String())
	}
	cards, err := monitor.Cards()
	text := fmt.Sprint(err)
	for _, card := range cards {
		text += " " + card.Name
	}
	return C.CString(text)
}
