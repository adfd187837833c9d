// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
	"gpuconf/gocore/visible"
)

// MaxCards is the maximum number of GPUs of a machine.
const MaxCards = 64

// maxMemoryBytes bounds one card, so that no sum of addresses can overflow.
const maxMemoryBytes = 16 << 40

// Card is one GPU of a Spec.
type Card struct {
	Model       Model
	MemoryBytes uint64 // Model.MemoryBytes unless the spec sets another size
}

// Spec lists the GPUs of a machine, in the order of their PCI bus ids. The zero value has none.
type Spec struct {
	Cards []Card
}

// ParseSpec parses a comma-separated list of `[N x]MODEL[:MEMORY]`, such as "2xH100-80GB", "A100-40GB,T4" or "4xT4:8GiB".
//
// Case, white space and a model's hyphens do not matter, and a model may be written as the driver reports it. N is 1 to 64, and so is the sum
// of all N. MEMORY is a whole number with a unit:
// B, KiB, MiB, GiB or TiB; KB, MB, GB and TB mean the same as these, as GB does in a model's name, so that
// H100-80GB and H100:80GB are one thing. It must be a positive multiple of 256 bytes.
func ParseSpec(text string) (Spec, error) {
	if strings.TrimSpace(text) == "" {
		return Spec{}, specError(text, "the specification is empty; an example is 2xH100-80GB")
	}
	var spec Spec
	for _, entry := range strings.Split(text, ",") {
		count, card, err := parseEntry(entry, MaxCards)
		if err != nil {
			return Spec{}, specError(text, "%s", err)
		}
		if count > MaxCards-len(spec.Cards) {
			return Spec{}, specError(text, "it has more than %d GPUs", MaxCards)
		}
		for range count {
			spec.Cards = append(spec.Cards, card)
		}
	}
	return spec, nil
}

func specError(text, format string, args ...any) error {
	return status.Errorf(status.InvalidArgument, "cannot simulate %s: %s", quoted(text), fmt.Sprintf(format, args...))
}

// quoted returns a caller's text for a message, without its middle if it is long.
func quoted(text string) string {
	const most = 120
	if len(text) <= most {
		return strconv.Quote(text)
	}
	start, end := strings.ToValidUTF8(text[:most/2], ""), strings.ToValidUTF8(text[len(text)-most/4:], "")
	return fmt.Sprintf("%q... %d bytes ...%q", start, len(text)-len(start)-len(end), end)
}

func parseEntry(entry string, most int) (count int, card Card, err error) {
	entry = strings.TrimSpace(entry)
	if entry == "" {
		return 0, Card{}, fmt.Errorf("an entry is empty; the form is [N x]MODEL[:MEMORY]")
	}
	countText, rest := cutCount(entry)
	count = 1
	if countText != "" {
		count, err = strconv.Atoi(countText)
		if err != nil || count < 1 || count > most {
			return 0, Card{}, fmt.Errorf("the count in %s must be from 1 to %d", quoted(entry), most)
		}
	}
	name, memory, hasMemory := strings.Cut(rest, ":")
	name = strings.TrimSpace(name)
	model, ok := findModel(name)
	if !ok {
		return 0, Card{}, unknownModel(entry, name)
	}
	card = Card{Model: model, MemoryBytes: model.MemoryBytes}
	if hasMemory {
		card.MemoryBytes, err = parseMemory(strings.TrimSpace(memory))
	}
	return count, card, err
}

// cutCount splits "2 x H100" into "2" and "H100". Without a count the first result is empty.
func cutCount(entry string) (count, rest string) {
	digits := len(entry) - len(strings.TrimLeft(entry, "0123456789"))
	after := strings.TrimSpace(entry[digits:])
	if digits == 0 || after == "" || (after[0] != 'x' && after[0] != 'X') {
		return "", entry
	}
	return entry[:digits], strings.TrimSpace(after[1:])
}

func unknownModel(entry, name string) error {
	if name == "" {
		return fmt.Errorf("%s names no model; known models: %s", quoted(entry), modelNames())
	}
	return fmt.Errorf("unknown GPU model %s; known models: %s", quoted(name), modelNames())
}

// memoryUnits in descending order, under the name that String uses.
var memoryUnits = []struct {
	name  string
	other string
	bytes uint64
}{
	{"TiB", "TB", 1 << 40},
	{"GiB", "GB", 1 << 30},
	{"MiB", "MB", 1 << 20},
	{"KiB", "KB", 1 << 10},
	{"B", "B", 1},
}

func parseMemory(text string) (uint64, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	unitText := strings.TrimSpace(text[digits:])
	number, err := strconv.ParseUint(text[:digits], 10, 64)
	if err != nil && digits > 0 {
		number = math.MaxUint64 // too many digits: the bound below says so
	}
	for _, unit := range memoryUnits {
		if digits == 0 || (!strings.EqualFold(unitText, unit.name) && !strings.EqualFold(unitText, unit.other)) {
			continue
		}
		high, bytes := bits.Mul64(number, unit.bytes)
		switch {
		case high != 0 || bytes > maxMemoryBytes:
			return 0, fmt.Errorf("memory %s is more than 16TiB", text)
		case bytes == 0:
			return 0, fmt.Errorf("memory must be positive, but got %s", text)
		case bytes%unitBytes != 0:
			return 0, fmt.Errorf("memory %s is not a multiple of %d bytes", text, unitBytes)
		}
		return bytes, nil
	}
	return 0, fmt.Errorf("memory %s is not a whole number with a unit (B, KiB, MiB, GiB, TiB), such as 8GiB", quoted(text))
}

// String returns the shortest text that ParseSpec parses as s.
func (s Spec) String() string {
	var entries []string
	for i := 0; i < len(s.Cards); {
		count := 1
		for i+count < len(s.Cards) && s.Cards[i+count].text() == s.Cards[i].text() {
			count++
		}
		entry := s.Cards[i].text()
		if count > 1 {
			entry = fmt.Sprintf("%dx%s", count, entry)
		}
		entries = append(entries, entry)
		i += count
	}
	return strings.Join(entries, ",")
}

func (c Card) text() string {
	if c.MemoryBytes == c.Model.MemoryBytes {
		return c.Model.Name
	}
	for _, unit := range memoryUnits {
		if c.MemoryBytes%unit.bytes == 0 {
			return fmt.Sprintf("%s:%d%s", c.Model.Name, c.MemoryBytes/unit.bytes, unit.name)
		}
	}
	return c.Model.Name // not reached: the last unit divides every size
}

// Devices describes the cards, all of them visible.
func (s Spec) Devices() []gpu.Device {
	devices := make([]gpu.Device, len(s.Cards))
	for i, card := range s.Cards {
		devices[i] = card.describe(i, i)
	}
	return devices
}

// Identities returns the cards in the form that visible.Select takes. The indices that it returns are Options.Visible.
func (s Spec) Identities() []visible.Device {
	devices := make([]visible.Device, len(s.Cards))
	for i, card := range s.Cards {
		devices[i] = visible.Device{UUID: card.uuid(i), PCIBusID: pciBusID(i), Speed: card.Model.speed()}
	}
	return devices
}
