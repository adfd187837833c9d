//go:build !cgo

package cabi

import "sync/atomic"

var scope atomic.Int64

func init() { scope.Store(NoScope) }

func writeScope(word int64) { scope.Store(word) }
func readScope() int64      { return scope.Load() }
