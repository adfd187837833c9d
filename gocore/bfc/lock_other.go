//go:build race || !amd64

package bfc

import "sync"

// lock is a mutex for an allocator; see lock_amd64.go.
type lock struct{ sync.Mutex }
