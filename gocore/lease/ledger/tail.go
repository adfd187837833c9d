// SPDX-License-Identifier: Apache-2.0

package ledger

// The tail of a record has what later versions added to it. A reader skips the tags that it does not know.
const (
	tagContexts  = 1 // of a claim: how many CUDA contexts its charge has room for on each card (4); without it unknown
	tagHeadBytes = 4 // tag, length
	tailBytes    = tagHeadBytes + 4
)

// later is the part of a record that is in its tail.
type later struct {
	contexts uint32 // that a claim has room for on each card; 0 if it does not say
}

func (r *later) appendTail(b []byte) []byte {
	if r.contexts == 0 {
		return b
	}
	b = order.AppendUint16(b, tagContexts)
	b = order.AppendUint16(b, 4)
	return order.AppendUint32(b, r.contexts)
}

// decodeTail reads the items that it knows, and reports whether the tail is one. Anybody may have written it.
func (r *later) decodeTail(b []byte) bool {
	for len(b) > 0 {
		if len(b) < tagHeadBytes || len(b)-tagHeadBytes < int(order.Uint16(b[2:])) {
			return false
		}
		end := tagHeadBytes + int(order.Uint16(b[2:]))
		tag, value := order.Uint16(b), b[tagHeadBytes:end]
		if tag == tagContexts && len(value) >= 4 {
			r.contexts = min(order.Uint32(value), MostContexts)
		}
		b = b[end:]
	}
	return true
}
