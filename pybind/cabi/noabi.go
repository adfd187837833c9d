//go:build !cgo

package cabi

import "sync/atomic"

var scope atomic.Int64

func init() { scope.Store(NoScope) }

// SetScope makes a logical GPU the scope.
func SetScope(number int64) { scope.Store(number) }

// Scope gives the scope.
func Scope() int64 { return scope.Load() }
