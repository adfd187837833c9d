package graph

import (
	"math"
	"strconv"
	"strings"

	"gpuconf/gocore/gpu"
)

// typeName is TensorFlow's word for a type in a tensor's description: "float".
func typeName(d gpu.DType) string {
	switch d {
	case gpu.Float32:
		return "float"
	case gpu.Float64:
		return "double"
	}
	return d.String()
}

// typeConstant is TensorFlow's name for a type in a node's attributes: "DT_FLOAT".
func typeConstant(d gpu.DType) string { return "DT_" + strings.ToUpper(typeName(d)) }

// formatFloat writes a number as TensorFlow does: the shortest text that reads back as the same number.
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
