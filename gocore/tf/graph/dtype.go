// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math"
	"strconv"
	"strings"

	"gpuconf/gocore/machine/gpu"
)

// typeName returns TensorFlow's name of a type in a tensor's description: "float".
func typeName(d gpu.DType) string {
	switch d {
	case gpu.Float32:
		return "float"
	case gpu.Float64:
		return "double"
	}
	return d.String()
}

// typeConstant returns TensorFlow's name of a type in a node's attributes: "DT_FLOAT".
func typeConstant(d gpu.DType) string { return "DT_" + strings.ToUpper(typeName(d)) }

// formatFloat formats a number as TensorFlow does: the shortest text that parses as the same number.
func formatFloat(v float64, bits int) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}
