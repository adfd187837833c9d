package sim

import (
	"slices"
	"strings"
)

// Model is a GPU model of the catalogue. It is a value, and never changes.
type Model struct {
	Name            string   // as it is written in a spec
	Aliases         []string // other ways to write it
	Product         string   // what the driver calls the card
	MemoryBytes     uint64   // GB in a model's name is GiB: the whole of it, as if no ECC or firmware took a share
	ComputeMajor    int
	ComputeMinor    int
	Multiprocessors int
	ClockMHz        int // boost clock; with the above it says which of two cards is faster

	// GreatestPriority is the most urgent stream priority; the least urgent is 0 on every card.
	GreatestPriority int

	// GranularityBytes is the unit of virtual memory management; 0 is a card without. (That of Kepler is not known; it
	// serves as the example.)
	GranularityBytes uint64
}

const mib, gib = 1 << 20, 1 << 30

// models is the catalogue, newest first within a family. Multiprocessors, clocks and compute capabilities are
// NVIDIA's published ones, of the SXM board where there are several.
var models = []Model{
	{"B200-180GB", []string{"B200"}, "NVIDIA B200", 180 * gib, 10, 0, 148, 1965, -5, 2 * mib},
	{"H200-141GB", []string{"H200"}, "NVIDIA H200", 141 * gib, 9, 0, 132, 1980, -5, 2 * mib},
	{"H100-80GB", []string{"H100"}, "NVIDIA H100 80GB HBM3", 80 * gib, 9, 0, 132, 1980, -5, 2 * mib},
	{"L40S", []string{"L40S-48GB"}, "NVIDIA L40S", 48 * gib, 8, 9, 142, 2520, -5, 2 * mib},
	{"L4", []string{"L4-24GB"}, "NVIDIA L4", 24 * gib, 8, 9, 58, 2040, -5, 2 * mib},
	{"RTX4090", []string{"RTX4090-24GB"}, "NVIDIA GeForce RTX 4090", 24 * gib, 8, 9, 128, 2520, -5, 2 * mib},
	{"A100-80GB", nil, "NVIDIA A100-SXM4-80GB", 80 * gib, 8, 0, 108, 1410, -5, 2 * mib},
	{"A100-40GB", nil, "NVIDIA A100-SXM4-40GB", 40 * gib, 8, 0, 108, 1410, -5, 2 * mib},
	{"A30", []string{"A30-24GB"}, "NVIDIA A30", 24 * gib, 8, 0, 56, 1440, -5, 2 * mib},
	{"A10-24GB", []string{"A10"}, "NVIDIA A10", 24 * gib, 8, 6, 72, 1695, -5, 2 * mib},
	{"RTX3090", []string{"RTX3090-24GB"}, "NVIDIA GeForce RTX 3090", 24 * gib, 8, 6, 82, 1695, -5, 2 * mib},
	{"T4", []string{"T4-16GB"}, "Tesla T4", 16 * gib, 7, 5, 40, 1590, -5, 2 * mib},
	{"V100-32GB", nil, "Tesla V100-SXM2-32GB", 32 * gib, 7, 0, 80, 1530, -5, 2 * mib},
	{"V100-16GB", nil, "Tesla V100-SXM2-16GB", 16 * gib, 7, 0, 80, 1530, -5, 2 * mib},
	{"GTX1080Ti", []string{"GTX1080Ti-11GB"}, "NVIDIA GeForce GTX 1080 Ti", 11 * gib, 6, 1, 28, 1582, -2, 2 * mib},
	{"P100-16GB", []string{"P100"}, "Tesla P100-SXM2-16GB", 16 * gib, 6, 0, 56, 1480, -2, 2 * mib},
	{"K40", []string{"K40-12GB"}, "Tesla K40c", 12 * gib, 3, 5, 15, 875, -1, 0},
	{"K20", []string{"K20-5GB"}, "Tesla K20m", 5 * gib, 3, 5, 13, 706, -1, 0},
}

// Models lists the catalogue.
func Models() []Model {
	list := slices.Clone(models)
	for i := range list {
		list[i].Aliases = slices.Clone(list[i].Aliases)
	}
	return list
}

// findModel looks a name up, whatever its case.
func findModel(name string) (Model, bool) {
	for _, m := range models {
		if strings.EqualFold(m.Name, name) {
			return m, true
		}
		for _, alias := range m.Aliases {
			if strings.EqualFold(alias, name) {
				return m, true
			}
		}
	}
	return Model{}, false
}

// modelNames lists the names that a spec may use, for error messages.
func modelNames() string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Name
	}
	return strings.Join(names, ", ")
}

// sizesOf lists the models that differ from family in memory only, such as A100-40GB for A100.
func sizesOf(family string) []string {
	var names []string
	for _, m := range models {
		if stem, _, found := strings.Cut(m.Name, "-"); found && strings.EqualFold(stem, family) {
			names = append(names, m.Name)
		}
	}
	return names
}

// speed orders cards as CUDA_DEVICE_ORDER=FASTEST_FIRST does, as far as that is known: by peak single
// precision arithmetic, here lanes times MHz.
func (m Model) speed() uint64 {
	return uint64(m.Multiprocessors) * uint64(lanesPerMultiprocessor(m.ComputeMajor, m.ComputeMinor)) * uint64(m.ClockMHz)
}

// lanesPerMultiprocessor is the number of single precision lanes ("CUDA cores") of one multiprocessor.
func lanesPerMultiprocessor(major, minor int) int {
	switch {
	case major == 3:
		return 192
	case major == 6 && minor == 0, major == 7, major == 8 && minor == 0:
		return 64
	default:
		return 128
	}
}
