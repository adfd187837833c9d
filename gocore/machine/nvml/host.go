// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"io/fs"
	"os"
	"strings"
)

// Host describes the environment of the process. NVML does not report it, but it affects how to interpret what NVML
// reports.
type Host struct {
	WSL          bool // Windows Subsystem for Linux: no processes are listed
	PIDNamespace bool // PIDs in this process's namespace differ from the host's
}

// thisHost returns the host that the process runs on.
func thisHost() Host { return ReadHost(os.DirFS("/")) }

// firstPIDNamespace is the initial PID namespace of every Linux kernel; its number is part of the kernel's interface
// (PROC_PID_INIT_INO).
const firstPIDNamespace = "pid:[4026531836]"

// ReadHost reads a host's properties from its root folder. A property that cannot be read is false.
func ReadHost(root fs.FS) Host {
	release, _ := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	_, err := fs.Stat(root, "dev/dxg")
	namespace, _ := fs.ReadLink(root, "proc/self/ns/pid")
	return Host{
		WSL:          err == nil || strings.Contains(strings.ToLower(string(release)), "microsoft"),
		PIDNamespace: namespace != "" && namespace != firstPIDNamespace,
	}
}
