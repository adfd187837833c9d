// SPDX-License-Identifier: Apache-2.0

package gpu

import "fmt"

// Result is a CUresult other than success, used as an error value. Success is
// a nil error, never a Result. The errors are in result_names.go.
type Result int

// Error returns CUDA's name and number, such as "CUDA_ERROR_OUT_OF_MEMORY (2)".
func (r Result) Error() string {
	name, ok := resultNames[r]
	if !ok {
		name = "CUDA_ERROR"
	}
	return fmt.Sprintf("%s (%d)", name, int(r))
}
