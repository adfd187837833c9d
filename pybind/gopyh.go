// SPDX-License-Identifier: Apache-2.0

//go:build never

package pybind

// The generated code in _gpuconf imports this. `go mod tidy` does not look into folders that begin with an underscore,
// and would drop the requirement.
import _ "github.com/go-python/gopy/gopyh"
