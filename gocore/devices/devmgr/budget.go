// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"fmt"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/machine/gpu"
)

// budget returns the budget of this process's job on a pool's GPU; ok is false if it has none.
func (m *Manager) budget(p *pool) (budget gpu.Budget, ok bool) {
	if driver, knows := m.driver.(gpu.Budgeted); knows {
		return driver.Budget(p.device.Ordinal)
	}
	return gpu.Budget{}, false
}

// describeBudget is the line about the job's budget in a report.
func describeBudget(b gpu.Budget) string {
	return fmt.Sprintf("  memory of the job: limit %s = pools %s + outside %s + free %s\n",
		human.Exact(b.LimitBytes), human.Bytes(b.PoolBytes), human.Bytes(b.OutsideBytes), human.Bytes(b.FreeBytes))
}
