// SPDX-License-Identifier: Apache-2.0

package bfc

import "gpuconf/gocore/pool/chunks"

// queue is a first-in-first-out, doubly linked list of indexes of tags or uses. The links are stored in its members.
type queue struct{ oldest, newest uint32 }

// links are a member's neighbors in its queue.
type links struct{ before, after uint32 }

func (l *links) queued() *links { return l }

// member is a record that embeds links, so that it can be in a queue.
type member[T any] interface {
	*T
	queued() *links
}

// push appends i as the newest member.
func push[T any, M member[T]](q *queue, table []T, i uint32) {
	*M(&table[i]).queued() = links{before: q.newest}
	link[T, M](q, table, q.newest, i)
	q.newest = i
}

// drop removes i.
func drop[T any, M member[T]](q *queue, table []T, i uint32) {
	l := *M(&table[i]).queued()
	link[T, M](q, table, l.before, l.after)
}

// replace puts another record in i's position.
func replace[T any, M member[T]](q *queue, table []T, i, other uint32) {
	l := *M(&table[i]).queued()
	*M(&table[other]).queued() = l
	link[T, M](q, table, l.before, other)
	link[T, M](q, table, other, l.after)
}

// link makes two members neighbors; None stands for an end of the queue.
func link[T any, M member[T]](q *queue, table []T, before, after uint32) {
	if before == chunks.None {
		q.oldest = after
	} else {
		M(&table[before]).queued().after = after
	}
	if after == chunks.None {
		q.newest = before
	} else {
		M(&table[after]).queued().before = before
	}
}
