// SPDX-License-Identifier: Apache-2.0

package devmgr

import "syscall"

// threadID identifies the calling OS thread. It is meaningful only if the caller stays on its thread, as a call from C
// does.
func threadID() int { return syscall.Gettid() }
