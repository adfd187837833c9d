package turns_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/lease/turns"
)

const second = time.Second

// holder has GiB of card A since a time, and swaps in a second.
// after is the plan of a waiter that gets its cards when these have left.
func after(waiter string, when time.Duration, leave ...string) turns.Plan {
	return turns.Plan{Waiter: waiter, Gets: true, Leave: leave, When: when}
}

func holder(name string, size uint64, began time.Duration) turns.Program {
	return turns.Program{ID: name, Cards: []ledger.Card{card("A", size*gib)}, Began: began, Out: second / 2,
		In: second / 2, Saved: size * gib}
}

func waiter(name string, size uint64) turns.Waiter {
	return turns.Waiter{ID: name, Wanted: ledger.Wanted{Cards: []ledger.Card{card("A", size*gib)}, Count: 1}}
}

func TestWhoLeavesForWhom(t *testing.T) {
	idle, unfit, leaving, coming := holder("a", 30, 0), holder("a", 30, 0), holder("a", 30, 0), holder("a", 30, 0)
	idle.IsIdle, idle.IdleSince = true, 20*second
	unfit.Unfit = "several ranks"
	leaving.Leaving, coming.Coming = true, true
	for name, row := range map[string]struct {
		programs []turns.Program
		waiters  []turns.Waiter
		host     uint64
		want     []turns.Plan
	}{
		"nobody, if there is room": {[]turns.Program{holder("a", 10, 0)}, []turns.Waiter{waiter("w", 30)}, 99,
			[]turns.Plan{{Waiter: "w", Gets: true}}},
		"who can leave sooner": {[]turns.Program{holder("a", 20, 5*second), holder("b", 20, 0)},
			[]turns.Waiter{waiter("w", 20)}, 99, []turns.Plan{after("w", 60*second, "b")}},
		"only who is needed": {[]turns.Program{holder("a", 10, 0), holder("b", 30, 5*second)},
			[]turns.Waiter{waiter("w", 30)}, 99, []turns.Plan{after("w", 65*second, "b")}},
		"two, when both can": {[]turns.Program{holder("a", 20, 0), holder("b", 20, 5*second)},
			[]turns.Waiter{waiter("w", 30)}, 99, []turns.Plan{after("w", 65*second, "a", "b")}},
		"two, one of which is leaving": {[]turns.Program{leaving, holder("b", 10, 5*second)},
			[]turns.Waiter{waiter("w", 35)}, 99, []turns.Plan{after("w", 65*second, "b")}},
		"an idle one before its turn ends": {[]turns.Program{idle}, []turns.Waiter{waiter("w", 30)}, 99,
			[]turns.Plan{after("w", 30*second, "a")}},
		"nobody for one who is not served by it": {[]turns.Program{unfit, holder("b", 5, 0)},
			[]turns.Waiter{waiter("w", 30)}, 99, []turns.Plan{{Waiter: "w", Blocked: []string{"a"}}}},
		"nobody, while one comes back": {[]turns.Program{coming}, []turns.Waiter{waiter("w", 30)}, 99,
			[]turns.Plan{{Waiter: "w"}}},
		"nobody without room in the host's memory": {[]turns.Program{holder("a", 30, 0)},
			[]turns.Waiter{waiter("w", 30)}, 29, []turns.Plan{{Waiter: "w", Blocked: []string{"a"}}}},
		"the host's memory is taken once": {[]turns.Program{holder("a", 20, 0), holder("b", 20, 0)},
			[]turns.Waiter{waiter("v", 20), waiter("w", 15)}, 30,
			[]turns.Plan{after("v", 60*second, "a"), {Waiter: "w", Blocked: []string{"b"}}}},
		"each leaves for one waiter": {[]turns.Program{holder("a", 20, 0), holder("b", 20, 5*second)},
			[]turns.Waiter{waiter("v", 20), waiter("w", 15)}, 99,
			[]turns.Plan{after("v", 60*second, "a"), after("w", 65*second, "b")}},
		"room is for one waiter": {[]turns.Program{holder("a", 25, 0)},
			[]turns.Waiter{waiter("v", 15), waiter("w", 14)}, 99, []turns.Plan{{Waiter: "v", Gets: true},
				after("w", 60*second, "a")}},
		"what an older waiter holds is not for a younger one": {[]turns.Program{unfit, holder("b", 5, 0)},
			[]turns.Waiter{waiter("v", 20), waiter("w", 6)}, 99, []turns.Plan{{Waiter: "v", Blocked: []string{"a"}},
				{Waiter: "w", Blocked: []string{"a"}}}},
		"a program of another card is in nobody's way": {[]turns.Program{holder("a", 40, 0)},
			[]turns.Waiter{{ID: "w", Wanted: ledger.Wanted{Cards: []ledger.Card{card("B", 50*gib)}, Count: 1}}}, 99,
			[]turns.Plan{{Waiter: "w"}}},
	} {
		t.Run(name, func(t *testing.T) {
			scene := turns.Scene{Programs: row.programs, Waiters: row.waiters, Host: row.host * gib}
			require.Equal(t, row.want, scene.Plans())
		})
	}
}

// A turn is at least a minute, ten times its swap, and what its user requested.
func TestHowLongATurnIs(t *testing.T) {
	p := holder("a", 30, 100*second)
	require.Equal(t, 160*second, p.Leaves())
	p.Out, p.In = 10*second, 6*second
	require.Equal(t, 260*second, p.Leaves())
	p.Slice = 200 * second
	require.Equal(t, 300*second, p.Leaves())
	p.IsIdle, p.IdleSince = true, 110*second
	require.Equal(t, 260*second, p.Leaves(), "idle, but the swap is not paid for")
	p.IdleSince = 250 * second
	require.Equal(t, 282*second, p.Leaves(), "twice the swap after its last call")
	p.IdleTime = 45 * second
	require.Equal(t, 295*second, p.Leaves())
	p.IdleTime = time.Hour
	require.Equal(t, 300*second, p.Leaves(), "its turn is over")
}
