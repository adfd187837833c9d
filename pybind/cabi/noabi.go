// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package cabi

import (
	"sync/atomic"

	"gpuconf/gocore/holder"
)

var (
	scope atomic.Int64
	tag   atomic.Uint32
)

func init() { scope.Store(NoScope) }

func writeScope(word int64)    { scope.Store(word) }
func readScope() int64         { return scope.Load() }
func writeTag(t holder.Tag)    { tag.Store(uint32(t)) }
func readSite() uint32         { return 0 }
func writeStacks(bool)         {}
func writeGeneration(uint32)   {}
func writeCaptureInfo(uintptr) {}
func writeStopped()            {}
func readTag() holder.Tag      { return holder.Tag(tag.Load()) }
