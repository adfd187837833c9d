package nvml

import (
	"io/fs"
	"os"
	"strings"
)

// Host is what NVML does not tell about the place where the process runs, and what changes the meaning of what it tells.
type Host struct {
	WSL          bool // Windows Subsystem for Linux: no process is ever listed
	PIDNamespace bool // PIDs of this process's world are not the host's
}

// thisHost is the host that the process runs on.
func thisHost() Host { return ReadHost(os.DirFS("/")) }

// firstPIDNamespace is the one that every Linux kernel starts with; its number is part of the kernel's interface
// (PROC_PID_INIT_INO).
const firstPIDNamespace = "pid:[4026531836]"

// ReadHost reads a host's facts from its root folder. What can't be read counts as the plain case.
func ReadHost(root fs.FS) Host {
	release, _ := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	_, err := fs.Stat(root, "dev/dxg")
	namespace, _ := fs.ReadLink(root, "proc/self/ns/pid")
	return Host{
		WSL:          err == nil || strings.Contains(strings.ToLower(string(release)), "microsoft"),
		PIDNamespace: namespace != "" && namespace != firstPIDNamespace,
	}
}
