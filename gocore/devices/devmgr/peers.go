// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"fmt"

	"gpuconf/gocore/tf/config"
)

// noticePeers says once, when the first pool of virtual memory is built on a machine where a program may want to copy
// between GPUs, what such memory cannot do: GPUs with peer access can copy it, but CUDA exports virtual memory in
// another way than memory from cuMemAlloc. On simulated GPUs nothing but gpuconf touches the memory.
func (m *Manager) noticePeers(pools []*pool) {
	if m.HostVisible() || len(m.listed) < 2 || m.saidPeers {
		return
	}
	for _, p := range pools {
		if p.virtual == nil {
			continue
		}
		m.saidPeers = true
		m.notice(
			config.Notice{Level: "warning",
				Text: fmt.Sprintf("%s grows, and %d GPUs are visible: memory of a pool that grows can be copied "+
					"between GPUs with peer access, but NCCL, CUDA IPC (Dask-CUDA, UCX) and RDMA (NCCL, UCX and NIXL "+
					"across nodes) do not work with it; if the program uses them, configure growth=False",
					shortName(p.number), len(m.listed))})
		return
	}
}
