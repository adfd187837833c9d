// SPDX-License-Identifier: Apache-2.0

package human

import "fmt"

// Count formats a count with its noun: "1 block", "2 blocks".
func Count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
