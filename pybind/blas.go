// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"strings"

	"gpuconf/gocore/machine/blas"
	"gpuconf/pybind/process"
)

// DescribeBLAS looks for the library that multiplies matrices in host memory, as the first large product does: choice
// is GPUCONF_BLAS, and folders are the folders from which Python imports modules, one per line. The result is
// {"library": name, "version": ..., "path": ..., "threads": n, "complaints": [line, ...]}; the name is "" if there is
// none.
func DescribeBLAS(choice string, folders string) (about string, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return "", err
	}
	description, err := blas.New(choice, strings.FieldsFunc(folders, func(r rune) bool { return r == '\n' })).Describe()
	if err != nil {
		return "", err
	}
	if description.Complaints == nil {
		description.Complaints = []string{}
	}
	return encode(map[string]any{
		"library": description.Library, "version": description.Version, "path": description.Path,
		"threads": description.Threads, "complaints": description.Complaints,
	})
}
