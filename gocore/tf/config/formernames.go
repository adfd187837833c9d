// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// The names of variables in 0.2, which 0.3 still reads, and their present names. The same are in
// _core/former_names.py: Python's callers pass variables under their present names.
var formerNames = []struct{ former, name string }{
	{"GPUCONF_MEMORY_LIMIT", "GPUCONF_LIMIT"},
	{"GPUCONF_ALLOW_GROWTH", "GPUCONF_GROWTH"},
}

// Rename gives variables with a former name their present one, and returns a line for each that the user should see.
func (e Env) Rename() []string {
	var lines []string
	for _, n := range formerNames {
		value, set := e[n.former]
		if !set {
			continue
		}
		delete(e, n.former)
		if _, both := e[n.name]; both {
			lines = append(lines, fmt.Sprintf("%s is ignored: %s, its new name, is set too", n.former, n.name))
			continue
		}
		e[n.name] = value
		lines = append(lines, fmt.Sprintf("%s is now %s; 0.4 will ignore the old name", n.former, n.name))
	}
	return lines
}
