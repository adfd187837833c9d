package cublas

import (
	"fmt"
	"path/filepath"

	"gpuconf/gocore/gpu"
)

// The major versions of cuBLAS.
const (
	oldestMajor = 11

	// From this one on cuBLAS has no kernels for GPUs before compute capability 7.5, and its wheel lies in a folder of its version.
	major13 = 13
)

// majors are the versions that the driver runs and that support all GPUs, the newest first.
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

// candidate is a library to try: by its name, which the loader looks for, or by a path.
type candidate struct {
	before string // what to load first, "" for nothing
	path   string
	loaded bool // only if the process has it already
}

func candidates(majors []int, folders []string) (list []candidate) {
	for _, major := range majors {
		list = append(list, candidate{path: soname(major), loaded: true})
	}
	for _, major := range majors {
		for _, folder := range folders {
			folder = filepath.Join(folder, wheelFolder(major), "lib")
			list = append(list, candidate{before: filepath.Join(folder, fmt.Sprintf("libcublasLt.so.%d", major)), path: filepath.Join(folder, soname(major))})
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

// extra is what to install for a version.
func extra(major int) string { return fmt.Sprintf("gpuconf[cublas-cu%d]", major) }
