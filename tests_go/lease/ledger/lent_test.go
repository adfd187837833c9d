package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/lease/turns"
	"gpuconf/tests_go/must"
)

func lent(t *testing.T, c *ledger.Claim, least, most uint64) uint64 {
	t.Helper()
	return must.OK(c.Lend(least*gib, most*gib, nil))(t) / gib
}

// The card has 40 GiB.
func TestMemoryThatNobodyNeedsIsLent(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(1, card("A", 10*gib)))
	require.True(t, granted(t, c))
	require.Equal(t, uint64(20), lent(t, c, 0, 20))
	require.Equal(t, uint64(30*gib), c.Cards()[0].Bytes)
	require.Equal(t, uint64(30), lent(t, c, 0, 100)) // all that is left
	sound(t, l)

	owner := claim(t, l, request(1, card("A", 30*gib)))
	require.False(t, granted(t, owner))
	require.Equal(t, uint64(15), lent(t, c, 0, 15))
	require.Equal(t, uint64(15), lent(t, c, 0, 30)) // not while another claim waits
	require.False(t, granted(t, owner))
	scene := must.OK(turns.SceneOf(l, host(64*gib)))(t)
	require.Equal(t, []turns.Plan{{Waiter: owner.ID().String(), Gets: true, Repay: []string{c.ID().String()}}},
		scene.Plans())

	require.Zero(t, lent(t, c, 0, 0))
	require.True(t, granted(t, owner))
	require.Zero(t, lent(t, c, 0, 30))
	sound(t, l)
	owner.Release()
	require.Zero(t, lent(t, c, 31, 40)) // it has no use for less
	require.Equal(t, uint64(30), lent(t, c, 30, 40))
	sound(t, l)
}

func TestWhatIsLentIsSeenByOthersAndStaysWithTheClaim(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(2, card("A", 10*gib), card("B", 10*gib), card("C", 10*gib)))
	require.True(t, granted(t, c))
	other := claim(t, l, request(1, card("A", 25*gib)))
	require.True(t, granted(t, other))
	require.Equal(t, uint64(5), lent(t, c, 0, 30)) // of each card as much as the fullest one has
	rows, _ := must.OK2(l.Rows())(t)
	require.Equal(t, uint64(5*gib), rows[0].Lent)
	require.Equal(t, uint64(15*gib), rows[0].Cards[0].Charge)
	reserved(t, c, 20*gib, 64*gib, true)
	rows, _ = must.OK2(l.Rows())(t)
	require.Equal(t, uint64(20*gib), rows[0].Host)
	require.Equal(t, uint64(2), lent(t, c, 0, 2))
	require.NoError(t, c.Unreserve())
	require.Equal(t, uint64(12*gib), c.Cards()[1].Bytes)
	sound(t, l)
}

func TestMemoryIsLentToClaimsThatAreGranted(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(1, card("A", 30*gib)))
	require.True(t, granted(t, c))
	waiting := claim(t, l, request(1, card("A", 30*gib)))
	require.False(t, granted(t, waiting))
	must.Fail(t, status.FailedPrecondition, must.Err(waiting.Lend(0, gib, nil)))
	reserved(t, c, 30*gib, 64*gib, true)
	require.NoError(t, c.Park())
	must.Fail(t, status.FailedPrecondition, must.Err(c.Lend(0, gib, nil)))
	asks := request(1, card("A", gib))
	asks.Lent = gib
	must.Fail(t, status.InvalidArgument, must.Err(l.Claim(asks)))
}
