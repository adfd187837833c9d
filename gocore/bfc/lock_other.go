//go:build race || !amd64

package bfc

import "sync"

// lock is the allocator's mutex; see lock_amd64.go.
type lock struct{ sync.Mutex }
