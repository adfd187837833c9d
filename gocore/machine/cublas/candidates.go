// SPDX-License-Identifier: Apache-2.0

package cublas

import (
	"fmt"
	"path/filepath"

	"gpuconf/gocore/machine/gpu"
)

// The major versions of cuBLAS.
const (
	oldestMajor = 11

	// The first version without kernels for GPUs before compute capability 7.5. Its wheel uses a folder named after the
	// version.
	major13 = 13
)

// majors returns the versions that the driver can run and that support all GPUs, newest first.
func majors(cudaVersion int, devices []gpu.Device) []int {
	newest := cudaVersion / 1000
	for _, d := range devices {
		if d.ComputeMajor < 7 || d.ComputeMajor == 7 && d.ComputeMinor < 5 {
			newest = min(newest, major13-1)
		}
	}
	var list []int
	for major := newest; major >= oldestMajor; major-- {
		list = append(list, major)
	}
	return list
}

// candidate is a library to try: a name that the loader resolves, or a path.
type candidate struct {
	before string // library to load first, "" for none
	path   string
	loaded bool // use it only if the process has already loaded it
}

func candidates(majors []int, folders []string) (list []candidate) {
	for _, major := range majors {
		list = append(list, candidate{path: soname(major), loaded: true})
	}
	for _, major := range majors {
		for _, folder := range folders {
			folder = filepath.Join(folder, wheelFolder(major), "lib")
			list = append(list, candidate{before: filepath.Join(folder, fmt.Sprintf("libcublasLt.so.%d", major)),
				path: filepath.Join(folder, soname(major))})
		}
	}
	for _, major := range majors {
		list = append(list, candidate{path: soname(major)})
	}
	return list
}

func soname(major int) string { return fmt.Sprintf("libcublas.so.%d", major) }

func wheelFolder(major int) string {
	if major >= major13 {
		return fmt.Sprintf("cu%d", major)
	}
	return "cublas"
}

// extra returns the name to pass to pip to install a version.
func extra(major int) string { return fmt.Sprintf("gpuconf[cublas-cu%d]", major) }
