// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"
	"unicode"

	"gpuconf/gocore/gpu"
)

// Model is a GPU model of the catalogue. It is an immutable value.
type Model struct {
	Name            string   // as Spec.String writes it
	Aliases         []string // other names in a spec
	Product         string   // the name that the driver reports; a spec may use it too
	MemoryBytes     uint64   // GB in a model's name means GiB, all of which is usable: nothing is subtracted for ECC or firmware
	ComputeMajor    int
	ComputeMinor    int
	Multiprocessors int
	ClockMHz        int // boost clock; orders cards by speed, together with the multiprocessors

	// GreatestPriority is the highest stream priority; the lowest is 0 on every card.
	GreatestPriority int

	// GranularityBytes is the unit of virtual memory management; 0 if the card does not support it. (Kepler's is unknown; the K80
	// serves as the card without support.)
	GranularityBytes uint64
}

const mib, gib = 1 << 20, 1 << 30

// models is the catalogue, newest first. Multiprocessors, boost clocks and memory are from NVIDIA's data sheets, of the SXM board
// if there are several; compute capabilities are from developer.nvidia.com/cuda-gpus, and products are the names that nvidia-smi
// prints. For K80, P100-12GB, GH200, GB10 and RTX5090 the values agree with the output of deviceQuery on such cards.
//
// A name without a size is an alias of the most common model: 40 GB for an A100 and 16 GB for a V100, as in the usual instances of
// the clouds (AWS p4d and p3, Google a2-highgpu, Azure ND A100 v4 and NCv3), and 96 GB for a GH200.
var models = []Model{
	// The memory is the data sheet's 13.4 TB of an NVL72, divided by 72. The data sheet lists no clock: it is computed from the 80
	// TFLOPS of FP32 per GPU. The multiprocessors are what CUDA reports.
	{"GB200-186GB", []string{"GB200"}, "NVIDIA GB200", 186 * gib, 10, 0, 152, 2056, -5, 2 * mib},
	{"B200-180GB", []string{"B200"}, "NVIDIA B200", 180 * gib, 10, 0, 148, 1965, -5, 2 * mib},
	// 6144 CUDA cores. The CPU shares its memory. The clock is from deviceQuery; the data sheet lists none.
	{"GB10", []string{"GB10-128GB"}, "NVIDIA GB10", 128 * gib, 12, 1, 48, 2418, -5, 2 * mib},
	// The Jetson boards share the CPU's memory, too. Smaller Orins have the same name.
	{"Thor-128GB", []string{"Thor"}, "NVIDIA Thor", 128 * gib, 11, 0, 20, 1575, -5, 2 * mib},
	{"Orin-64GB", []string{"Orin"}, "Orin (nvgpu)", 64 * gib, 8, 7, 16, 1300, -5, 2 * mib},
	{"RTX5090", []string{"RTX5090-32GB"}, "NVIDIA GeForce RTX 5090", 32 * gib, 12, 0, 170, 2407, -5, 2 * mib},
	{"H200-141GB", []string{"H200"}, "NVIDIA H200", 141 * gib, 9, 0, 132, 1980, -5, 2 * mib},
	// The 480 GB in the product's name are the CPU's memory.
	{"GH200-96GB", []string{"GH200"}, "NVIDIA GH200 480GB", 96 * gib, 9, 0, 132, 1980, -5, 2 * mib},
	{"GH200-144GB", nil, "NVIDIA GH200 144G HBM3e", 144 * gib, 9, 0, 132, 1980, -5, 2 * mib},
	{"H100-80GB", []string{"H100"}, "NVIDIA H100 80GB HBM3", 80 * gib, 9, 0, 132, 1980, -5, 2 * mib},
	{"L40S", []string{"L40S-48GB"}, "NVIDIA L40S", 48 * gib, 8, 9, 142, 2520, -5, 2 * mib},
	{"L4", []string{"L4-24GB"}, "NVIDIA L4", 24 * gib, 8, 9, 58, 2040, -5, 2 * mib},
	{"RTX4090", []string{"RTX4090-24GB"}, "NVIDIA GeForce RTX 4090", 24 * gib, 8, 9, 128, 2520, -5, 2 * mib},
	{"A100-80GB", nil, "NVIDIA A100-SXM4-80GB", 80 * gib, 8, 0, 108, 1410, -5, 2 * mib},
	{"A100-40GB", []string{"A100"}, "NVIDIA A100-SXM4-40GB", 40 * gib, 8, 0, 108, 1410, -5, 2 * mib},
	{"A30", []string{"A30-24GB"}, "NVIDIA A30", 24 * gib, 8, 0, 56, 1440, -5, 2 * mib},
	{"A10-24GB", []string{"A10"}, "NVIDIA A10", 24 * gib, 8, 6, 72, 1695, -5, 2 * mib},
	{"RTX3090", []string{"RTX3090-24GB"}, "NVIDIA GeForce RTX 3090", 24 * gib, 8, 6, 82, 1695, -5, 2 * mib},
	{"T4", []string{"T4-16GB"}, "Tesla T4", 16 * gib, 7, 5, 40, 1590, -5, 2 * mib},
	{"V100-32GB", nil, "Tesla V100-SXM2-32GB", 32 * gib, 7, 0, 80, 1530, -5, 2 * mib},
	{"V100-16GB", []string{"V100"}, "Tesla V100-SXM2-16GB", 16 * gib, 7, 0, 80, 1530, -5, 2 * mib},
	{"GTX1080Ti", []string{"GTX1080Ti-11GB"}, "NVIDIA GeForce GTX 1080 Ti", 11 * gib, 6, 1, 28, 1582, -2, 2 * mib},
	{"P100-16GB", []string{"P100"}, "Tesla P100-SXM2-16GB", 16 * gib, 6, 0, 56, 1480, -2, 2 * mib},
	{"P100-12GB", nil, "Tesla P100-PCIE-12GB", 12 * gib, 6, 0, 56, 1303, -2, 2 * mib},
	// One of the two GPUs of a board, which CUDA lists as two devices.
	{"K80", []string{"K80-12GB"}, "Tesla K80", 12 * gib, 3, 7, 13, 875, -1, 0},
	{"K40", []string{"K40-12GB"}, "Tesla K40c", 12 * gib, 3, 5, 15, 875, -1, 0},
	{"K20", []string{"K20-5GB"}, "Tesla K20m", 5 * gib, 3, 5, 13, 706, -1, 0},
}

// Models returns the catalogue.
func Models() []Model {
	list := slices.Clone(models)
	for i := range list {
		list[i].Aliases = slices.Clone(list[i].Aliases)
	}
	return list
}

// findModel looks up a name, an alias or a product. Case, white space, hyphens and the brand are ignored: "GeForce RTX 4090" is
// RTX4090.
func findModel(name string) (Model, bool) {
	wanted := plain(name)
	for _, m := range models {
		if plain(m.Name) == wanted || plain(m.Product) == wanted ||
			slices.ContainsFunc(m.Aliases, func(alias string) bool { return plain(alias) == wanted }) {
			return m, true
		}
	}
	return Model{}, false
}

// plain returns a name without the parts that findModel ignores.
func plain(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || unicode.IsSpace(r) })
	for len(words) > 1 && slices.Contains([]string{"nvidia", "tesla", "geforce"}, words[0]) {
		words = words[1:]
	}
	return strings.Join(words, "")
}

// modelNames lists the names that a spec accepts, for error messages.
func modelNames() string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Name
	}
	return strings.Join(names, ", ")
}

// MemoryKind returns where the model's memory is.
func (m Model) MemoryKind() gpu.MemoryKind {
	switch family, _, _ := strings.Cut(m.Name, "-"); family {
	case "GB10", "Thor", "Orin":
		return gpu.Unified
	case "GH200", "GB200":
		return gpu.Coherent
	}
	return gpu.Dedicated
}

// oversubscribes reports whether managed memory may exceed the card's memory. That needs page faults on the GPU (Pascal or newer).
func (m Model) oversubscribes() bool { return m.ComputeMajor >= 6 }

// speed orders cards as CUDA_DEVICE_ORDER=FASTEST_FIRST does, as far as that is known: by peak single precision arithmetic, which
// is lanes times MHz here.
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
