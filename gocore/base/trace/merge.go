// SPDX-License-Identifier: Apache-2.0

package trace

import "context"

// merged merges lists that are each in order of time. Among equal times, events of an earlier list come first.
func merged(ctx context.Context, lists [][]Event) ([]Event, error) {
	switch len(lists) {
	case 0:
		return nil, nil
	case 1:
		return lists[0], nil
	}
	left, err := merged(ctx, lists[:len(lists)/2])
	if err != nil {
		return nil, err
	}
	right, err := merged(ctx, lists[len(lists)/2:])
	if err != nil || len(left) == 0 {
		return right, err
	}
	if len(right) == 0 {
		return left, nil
	}
	both := make([]Event, 0, len(left)+len(right))
	for len(left) > 0 && len(right) > 0 {
		if len(both)%stepsBetween == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if right[0].Micros < left[0].Micros {
			both, right = append(both, right[0]), right[1:]
		} else {
			both, left = append(both, left[0]), left[1:]
		}
	}
	return append(append(both, left...), right...), nil
}
