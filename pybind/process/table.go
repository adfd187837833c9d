// SPDX-License-Identifier: Apache-2.0

package process

import (
	"sync"

	"gpuconf/gocore/base/status"
)

// table maps numbers, by which Python refers to objects, to values. Numbers are never reused. The zero table is empty
// and ready to use.
type table[T any] struct {
	mu     sync.RWMutex
	values map[int64]T // guarded by mu
	last   int64       // guarded by mu
}

func (t *table[T]) put(value T) (id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values == nil {
		t.values = map[int64]T{}
	}
	t.last++
	t.values[t.last] = value
	return t.last
}

// get returns a value; what names its kind in errors.
func (t *table[T]) get(id int64, what string) (T, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	value, ok := t.values[id]
	if !ok {
		return value, errNotThere(what, id)
	}
	return value, nil
}

// remove removes and returns a value; only one caller gets it.
func (t *table[T]) remove(id int64, what string) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok := t.values[id]
	if !ok {
		return value, errNotThere(what, id)
	}
	delete(t.values, id)
	return value, nil
}

// each returns all values, in no particular order.
func (t *table[T]) each() []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	values := make([]T, 0, len(t.values))
	for _, value := range t.values {
		values = append(values, value)
	}
	return values
}

func errNotThere(what string, id int64) error {
	return status.Errorf(status.InvalidArgument, "there is no %s %d: it was released or never existed", what, id)
}
