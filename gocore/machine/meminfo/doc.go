// SPDX-License-Identifier: Apache-2.0

// Package meminfo reads how much memory the host has, and how much of it programs can still get. GPUs that share the
// host's memory (GB10, Jetson) have no other number: NVML does not report any, and CUDA's free memory leaves out what
// the kernel can reclaim.
//
//  1. AvailableBytes never exceeds TotalBytes.
//  2. In a container the numbers are the host's: the GPU's driver does not know of the container's limit either.
package meminfo
