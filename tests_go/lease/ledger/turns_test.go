package ledger_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/lease/turns"
	"gpuconf/tests_go/must"
)

func said(t *testing.T, l *ledger.Ledger, id ledger.ID) ledger.Turns {
	t.Helper()
	members, _ := must.OK2(l.Members(host(64 * gib)))(t)
	for _, m := range members {
		if m.ID == id {
			return m.Turns
		}
	}
	require.Fail(t, "no such claim")
	return ledger.Turns{}
}

func TestWhatAProgramSaysOfItsTurnsIsInItsClaim(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(1, card("A", 30*gib)))
	require.True(t, granted(t, c))
	require.Equal(t, ledger.Turns{}, said(t, l, c.ID()))
	turns := ledger.Turns{Phase: ledger.Runs, IdleSince: time.Second, Out: 2 * time.Second, In: 3 * time.Second,
		Slice: time.Minute, IdleTime: time.Hour, Saved: 20 * gib, Swaps: 3,
		Waited: time.Microsecond, Unfit: "two processes"}
	require.NoError(t, c.Say(turns))
	require.Equal(t, turns, said(t, l, c.ID()))
	rows, _, err := l.Rows()
	require.NoError(t, err)
	require.Equal(t, []any{time.Minute, time.Hour, uint64(3), 1e-6},
		[]any{rows[0].Slice, rows[0].IdleTime, rows[0].Swaps, rows[0].Waited})

	reserved(t, c, 20*gib, 64*gib, true)
	require.NoError(t, c.Park())
	turns.Phase = ledger.Comes
	require.NoError(t, c.Say(turns)) // and it stays parked
	require.Equal(t, []string{"parked"}, states(t, l))
	again := claim(t, l, request(1, card("A", 30*gib)))
	require.True(t, granted(t, again))
	require.NoError(t, c.Return(again))
	require.Equal(t, turns, said(t, l, c.ID()))
	sound(t, l)

	turns.Out = 25 * time.Hour
	must.Fail(t, status.InvalidArgument, c.Say(turns))
}

// Another process goes on with a claim by the descriptor that it has inherited: here, by a copy.
func TestAClaimIsAdoptedByItsDescriptor(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(1, card("A", 30*gib)))
	require.True(t, granted(t, c))
	fd := must.OK(c.Descriptor())(t)
	copied := must.OK(unix.Dup(fd))(t)

	other := must.OK(ledger.Open(l.Folder(), false))(t)
	defer func() { require.NoError(t, other.Close()) }()
	must.Fail(t, status.NotFound, must.Err(other.Adopt(copied, ledger.ID{1})))
	must.Fail(t, status.InvalidArgument, must.Err(other.Adopt(math.MaxInt32, c.ID())))
	adopted := must.OK(other.Adopt(copied, c.ID()))(t)
	reserved(t, adopted, 30*gib, 64*gib, true)
	require.NoError(t, adopted.Park())
	require.Equal(t, []string{"parked"}, states(t, l))
	require.NoError(t, c.Say(ledger.Turns{Phase: ledger.Runs})) // who has not seen that it was parked
	require.Equal(t, []string{"parked"}, states(t, l))
	sound(t, l)
	adopted.Release() // as who adopts it ends: the program runs on
	require.Equal(t, []string{"parked"}, states(t, l))
	c.Release()
	require.Empty(t, states(t, l))
}

// Anybody may have written it.
func TestHostileTimesDoNotOverflow(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(1, card("A", 30*gib)))
	require.True(t, granted(t, c))
	require.NoError(t, c.Say(ledger.Turns{Phase: 1, IdleSince: 0x1122334455667788, Unfit: strings.Repeat("é", 300)}))
	require.LessOrEqual(t, len(said(t, l, c.ID()).Unfit), ledger.UnfitText)
	fd := must.OK(c.Descriptor())(t)
	var stat unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &stat))
	data := make([]byte, stat.Size)
	must.OK(unix.Pread(fd, data, 0))(t)
	at := strings.Index(string(data), string(binary.LittleEndian.AppendUint64(nil, 0x1122334455667788)))
	require.Positive(t, at)

	scene := must.OK(turns.SceneOf(l, host(64*gib)))(t)
	require.Len(t, scene.Programs, 1)
	require.LessOrEqual(t, scene.Programs[0].IdleSince, ledger.Now())
	require.Equal(t, uint64(64*gib), scene.Host)
}

func TestTheSceneHasProgramsWaitersAndWhatTheHostHas(t *testing.T) {
	l := private(t)
	first := claim(t, l, request(1, card("A", 30*gib)))
	require.True(t, granted(t, first))
	second := claim(t, l, request(1, card("A", 30*gib)))
	require.False(t, granted(t, second))
	plans := func() []turns.Plan {
		scene := must.OK(turns.SceneOf(l, host(64*gib)))(t)
		return scene.Plans()
	}
	require.Equal(t, []turns.Plan{{Waiter: second.ID().String(), Blocked: []string{first.ID().String()}}}, plans())
	require.NoError(t, first.Say(ledger.Turns{Phase: ledger.Runs, Saved: 30 * gib}))
	plan := plans()[0]
	require.True(t, plan.Gets)
	require.Equal(t, []string{first.ID().String()}, plan.Leave)
	require.InDelta(t, float64(ledger.Now()+turns.LeastSlice), float64(plan.When), float64(10*time.Second))

	require.NoError(t, first.Say(ledger.Turns{Phase: ledger.Runs, Saved: 65 * gib})) // the host has no room for it
	require.False(t, plans()[0].Gets)
	require.NoError(t, first.Say(ledger.Turns{Phase: ledger.Leaves, Saved: 30 * gib})) // it is leaving already
	require.Equal(t, []turns.Plan{{Waiter: second.ID().String(), Gets: true}}, plans())
}
