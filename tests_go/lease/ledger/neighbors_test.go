package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/pool/figures"
	"gpuconf/tests_go/must"
)

// A report of a full card lists who else has memory of it: not this process, nor the claim that it runs under.
func TestAProcessIsNotItsOwnNeighbor(t *testing.T) {
	l := private(t)
	mine := claim(t, l, request(1, card("A", 10*gib)))
	published := must.OK(l.Publish(mine.ID(), ledger.Text{Name: "me"}))(t)
	defer published.End()
	pools := must.OK(published.SetPools([]figures.Place{{UUID: "A"}}))(t)
	pools[0].Libraries[holder.Torch] = gib

	found := must.OK(published.Neighbors("A"))(t)
	require.Empty(t, found)

	outside := must.OK(l.Publish(ledger.ID{}, ledger.Text{Name: "me, without a claim"}))(t)
	defer outside.End()
	more := must.OK(outside.SetPools([]figures.Place{{UUID: "A"}}))(t)
	more[0].Libraries[holder.Torch] = gib
	other := request(1, card("A", 5*gib))
	other.Text.Name = "other"
	claim(t, l, other)
	found = must.OK(published.Neighbors("A"))(t)
	require.Len(t, found, 1)
	require.Equal(t, []any{"other", uint64(5 * gib)}, []any{found[0].Name, found[0].Leased})
}
