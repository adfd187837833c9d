# SPDX-License-Identifier: Apache-2.0
"""What crosses the border to Go: see pybind/wire/wire.go."""
