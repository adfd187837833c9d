// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"

	"gpuconf/gocore/status"
)

// MaxFleet is the maximum number of GPUs of a fleet.
const MaxFleet = 1_000_000

// Batch is a number of equal GPUs of a fleet.
type Batch struct {
	Count int
	Card  Card
}

// Name returns the card as a spec names it, such as "H100-80GB" or "T4:8GiB".
func (b Batch) Name() string { return b.Card.text() }

// ParseFleet parses a list of GPUs in the form that ParseSpec takes. They are those of many machines: N is 1 to MaxFleet, and so is the
// sum of all N.
func ParseFleet(text string) (fleet []Batch, err error) {
	fail := func(format string, args ...any) ([]Batch, error) {
		return nil, status.Errorf(status.InvalidArgument, "invalid fleet %q: %s", text, fmt.Sprintf(format, args...))
	}
	if strings.TrimSpace(text) == "" {
		return fail("it is empty; an example is 64xA100-80GB,128xH100-80GB")
	}
	total := 0
	for _, entry := range strings.Split(text, ",") {
		count, card, err := parseEntry(entry, MaxFleet)
		if err != nil {
			return fail("%s", err)
		}
		if count > MaxFleet-total {
			return fail("it has more than %d GPUs", MaxFleet)
		}
		total += count
		fleet = append(fleet, Batch{count, card})
	}
	return fleet, nil
}
