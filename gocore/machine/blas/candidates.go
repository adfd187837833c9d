// SPDX-License-Identifier: Apache-2.0

package blas

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// systemNames are the names for the loader. The last two are links to the library that the administrator chose.
var systemNames = []string{"libopenblas64.so.0", "libopenblas.so.0", "libblis.so.4", "libcblas.so.3", "libblas.so.3"}

// wheelFiles are patterns of the files that wheels install, from a folder of modules.
var wheelFiles = []string{
	"numpy.libs/libscipy_openblas*.so*",
	"numpy.libs/libopenblas*.so*",
	"scipy_openblas64/lib/libscipy_openblas64_.so",
	"scipy_openblas32/lib/libscipy_openblas.so",
	inEnvironment + mklFile + "*", // MKL's wheel, and Conda's package
}

const (
	inEnvironment = "../../" // lib of the environment, from its folder of modules
	mklFile       = "libmkl_rt.so."
	mklThreads    = "libiomp5.so"
)

// isWhole reports whether a library's parts are there. MKL ends the process if it does not find its threads.
func isWhole(path string) bool {
	if !strings.HasPrefix(filepath.Base(path), mklFile) {
		return true
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(path), mklThreads))
	return err == nil
}

// inWheels returns the files of wheels in the folders, in the order of the patterns.
func inWheels(folders []string) (files []string) {
	for _, pattern := range wheelFiles {
		for _, folder := range folders {
			found, err := filepath.Glob(filepath.Join(escaped(folder), pattern))
			if err != nil {
				continue
			}
			slices.Reverse(found) // the highest version first
			for _, path := range found {
				if isWhole(path) {
					files = append(files, path)
				}
			}
		}
	}
	return files
}

// escaped returns a folder as a pattern that matches only itself.
func escaped(folder string) string {
	var pattern []rune
	for _, r := range folder {
		if r == '*' || r == '?' || r == '[' || r == '\\' {
			pattern = append(pattern, '\\')
		}
		pattern = append(pattern, r)
	}
	return string(pattern)
}
