// SPDX-License-Identifier: Apache-2.0

package main

// #cgo CFLAGS: -include weak.h
import "C"
