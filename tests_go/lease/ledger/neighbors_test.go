package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/pool/figures"
)

// A report of a full card lists who else has memory of it: not this process, nor the claim that it runs under.
func TestAProcessIsNotItsOwnNeighbor(t *testing.T) {
	l := private(t)
	mine := claim(t, l, request(1, card("A", 10*gib)))
	published, err := l.Publish(mine.ID(), ledger.Text{Name: "me"})
	require.NoError(t, err)
	defer published.End()
	pools, err := published.SetPools([]figures.Place{{UUID: "A"}})
	require.NoError(t, err)
	pools[0].Libraries[holder.Torch] = gib

	found, err := published.Neighbors("A")
	require.NoError(t, err)
	require.Empty(t, found)

	outside, err := l.Publish(ledger.ID{}, ledger.Text{Name: "me, without a claim"})
	require.NoError(t, err)
	defer outside.End()
	more, err := outside.SetPools([]figures.Place{{UUID: "A"}})
	require.NoError(t, err)
	more[0].Libraries[holder.Torch] = gib
	other := request(1, card("A", 5*gib))
	other.Text.Name = "other"
	claim(t, l, other)
	found, err = published.Neighbors("A")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, []any{"other", uint64(5 * gib)}, []any{found[0].Name, found[0].Leased})
}
