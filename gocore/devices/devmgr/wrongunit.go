// SPDX-License-Identifier: Apache-2.0

package devmgr

import "fmt"

const mib = 1 << 20

// byFar is how many times a GPU's memory a limit must be to look like a number in the wrong unit.
const byFar = 8

// wrongUnit returns what was probably meant by a limit on an ordinal that is far beyond the GPU's memory, as the end of
// a sentence, or "".
func wrongUnit(pools []*pool, ordinal int) string {
	for _, p := range pools {
		if hint := p.wrongUnit(); hint != "" && p.device.Ordinal == ordinal {
			return hint
		}
	}
	return ""
}

// wrongUnit returns what was probably meant by a limit far beyond the GPU's memory, as the end of a sentence, or "".
// TensorFlow accepts such a limit, so gpuconf does.
func (p *pool) wrongUnit() string {
	total := p.device.TotalBytes
	if p.limitBytes/byFar < total {
		return ""
	}
	switch given := p.limitBytes / mib; {
	case !p.limited:
		times := p.limitBytes / total
		if times > 100 {
			return ". per_process_gpu_memory_fraction is a fraction: 0.5 is half of the GPU's memory"
		}
		return fmt.Sprintf(". per_process_gpu_memory_fraction is a fraction, and not a percentage: write %g for %d%%",
			float64(times)/100, times)
	case given/mib > 0 && given <= byFar*total:
		return fmt.Sprintf(". memory_limit is a number of MiB, and %d looks like bytes: write %d", given, given/mib)
	}
	return ". memory_limit is a number of MiB"
}
