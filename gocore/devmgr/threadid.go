package devmgr

import "syscall"

// threadID names the calling OS thread. It means something where the caller stays on its thread, as one that came from C does.
func threadID() int { return syscall.Gettid() }
