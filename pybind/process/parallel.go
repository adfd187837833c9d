// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/base/status"
)

// Parallel calls do for each of the numbers from 0 to n-1, as many at a time as there are processors, and returns the
// first error. It stops when there is one. A panic of do counts as an internal error, as in Gate: it must not end
// Python's process.
func Parallel(ctx context.Context, n int, do func(ctx context.Context, number int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		workers.Go(func() {
			for number := int(next.Add(1)) - 1; number < n && ctx.Err() == nil; number = int(next.Add(1)) - 1 {
				if err := caught(ctx, number, do); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

func caught(ctx context.Context, number int, do func(context.Context, int) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			var marked error
			Caught(r, &marked)
			err = status.Errorf(status.Internal, "%s", Unmark(marked))
		}
	}()
	return do(ctx, number)
}
