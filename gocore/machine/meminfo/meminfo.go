// SPDX-License-Identifier: Apache-2.0

// Package meminfo reads how much memory the host has, and how much of it programs can still get. GPUs that share the
// host's memory (GB10, Jetson) have no other number: NVML does not report any, and CUDA's free memory leaves out what
// the kernel can reclaim.
//
//  1. AvailableBytes never exceeds TotalBytes.
//  2. In a container the numbers are the host's: the GPU's driver does not know of the container's limit either.
package meminfo

import (
	"io/fs"
	"os"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
)

// Source names where the numbers come from, for people.
const Source = "/proc/meminfo"

// Host is the memory of the host.
type Host struct {
	TotalBytes     uint64 // physical memory, less what the kernel reserves for itself at boot
	AvailableBytes uint64 // what programs can get without swapping: free memory, and what the kernel can reclaim
}

// Read reads the memory of this host.
func Read() (Host, error) { return ReadFrom(os.DirFS("/")) }

// ReadFrom reads a host's memory from its root folder.
func ReadFrom(root fs.FS) (Host, error) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return Host{}, status.Errorf(status.Unavailable, "the host's memory is unknown: %w", err)
	}
	total, knownTotal := field(string(text), "MemTotal:")
	available, knownAvailable := field(string(text), "MemAvailable:")
	if !knownTotal || !knownAvailable {
		return Host{}, status.Errorf(status.Unavailable, "the host's memory is unknown: %s has no MemTotal or "+
			"MemAvailable", Source)
	}
	return Host{TotalBytes: total, AvailableBytes: min(available, total)}, nil
}

// field returns a line's number, which is in KiB, as bytes.
func field(text, name string) (bytes uint64, found bool) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != name || words[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseUint(words[1], 10, 53)
		return kib << 10, err == nil
	}
	return 0, false
}
