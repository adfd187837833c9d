package ledger_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/lease/turns"
	"gpuconf/tests_go/must"
)

const mib = 1 << 20

func host(available uint64) ledger.Host {
	return ledger.Host{Total: 64 * gib, Available: available, Group: math.MaxUint64}
}

// parked parks a claim with room for its bytes.
func parked(t *testing.T, l *ledger.Ledger, bytes uint64) *ledger.Claim {
	c := claim(t, l, request(1, card("A", bytes)))
	require.True(t, granted(t, c))
	reserved(t, c, bytes, 64*gib, true)
	require.NoError(t, c.Park())
	return c
}

func reserved(t *testing.T, c *ledger.Claim, bytes, available uint64, want bool) {
	require.Equal(t, want, must.OK(c.Reserve(bytes, host(available)))(t))
}

func states(t *testing.T, l *ledger.Ledger) (states []string) {
	claims, _ := must.OK2(l.Rows())(t)
	for _, row := range claims {
		states = append(states, row.State.String())
	}
	return states
}

func TestAParkedProgramLeavesItsCardToOthersAndComesBackInTurn(t *testing.T) {
	l := private(t)
	first := claim(t, l, request(1, card("A", 30*gib)))
	second := claim(t, l, request(1, card("A", 30*gib)))
	reserved(t, first, 30*gib, 40*gib, true)
	require.Equal(t, []string{"granted", "waiting"}, states(t, l)) // it has its lease until it is parked
	require.False(t, granted(t, second))
	sound(t, l)
	require.NoError(t, first.Park())
	sound(t, l)
	require.Empty(t, first.Cards())
	require.True(t, granted(t, second))
	require.Equal(t, []string{"granted", "parked"}, states(t, l))
	again := claim(t, l, request(1, card("A", 30*gib)))
	require.False(t, granted(t, again))
	second.Release()
	require.True(t, granted(t, again))
	sound(t, l)
	id := first.ID()
	require.NoError(t, first.Return(again))
	sound(t, l)
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 1)
	require.Equal(t, []any{id, ledger.Granted, 1}, []any{claims[0].ID, claims[0].State, claims[0].Count})
	require.Equal(t, []ledger.CardLease{{UUID: "A", Bytes: 30 * gib, Charge: 30 * gib}}, claims[0].Cards)
	require.Equal(t, claims[0].Cards, first.Cards())
	require.Equal(t, status.FailedPrecondition, status.CodeOf(must.Err(look(again)))) // it was released
	require.False(t, granted(t, claim(t, l, request(1, card("A", 30*gib)))))
	require.NoError(t, first.Unreserve())
	require.NoError(t, first.Unreserve())
	sound(t, l)
}

func TestSeveralCardsReturnToOthersOfTheirSize(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(2, card("A", 30*gib), card("B", 20*gib)))
	reserved(t, c, 50*gib, 64*gib, true)
	require.NoError(t, c.Park())
	fewer := claim(t, l, request(1, card("A", 30*gib)))
	must.Fail(t, status.InvalidArgument, c.Return(fewer))
	fewer.Release()
	again := claim(t, l, request(2, card("C", 20*gib), card("B", 30*gib)))
	require.NoError(t, c.Return(again))
	require.Equal(t, []string{"C", "B"}, names(c))
	sound(t, l)
}

// A byte too few, and nothing is reserved. What was reserved and is not filled counts, what parked programs have
// filled is no longer available.
func TestTheHostsMemoryIsACard(t *testing.T) {
	l := private(t)
	first := claim(t, l, request(1, card("A", 10*gib)))
	second := claim(t, l, request(1, card("B", 10*gib)))
	reserved(t, first, 10*gib, 10*gib-1, false)
	ok := must.OK(first.Reserve(10*gib, ledger.Host{Total: 64 * gib, Available: 64 * gib, Group: 10*gib - 1}))(t)
	require.False(t, ok)
	ok = must.OK(first.Reserve(10*gib, ledger.Host{Total: 10*gib - 1, Available: 64 * gib, Group: 64 * gib}))(t)
	require.False(t, ok)
	require.Equal(t, []string{"granted", "granted"}, states(t, l))
	reserved(t, first, 10*gib, 20*gib-mib, true)
	reserved(t, second, 10*gib, 20*gib-mib, false)
	require.NoError(t, first.Park()) // 10 GiB - 1 MiB are available from here on
	reserved(t, second, 10*gib, 10*gib-mib, false)
	reserved(t, second, 10*gib-mib, 10*gib-mib, true)
	require.NoError(t, second.Park())
	sound(t, l)
	first.Release()
	third := claim(t, l, request(1, card("A", 10*gib)))
	reserved(t, third, 10*gib, 10*gib, true)
	sound(t, l)
}

// Two claims of one request: what one is granted says nothing of the other.
func TestClaimsOfOneRequestAreApart(t *testing.T) {
	l := private(t)
	r := request(1, card("A", 30*gib))
	first, second := claim(t, l, r), claim(t, l, r)
	reserved(t, first, 30*gib, 64*gib, true)
	require.Equal(t, []string{"A"}, names(first))
	require.Empty(t, names(second))
	sound(t, l)
}

func TestWrongOrdersOfParkingChangeNothing(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(1, card("A", 30*gib)))
	waiting := claim(t, l, request(1, card("A", 30*gib)))
	other := claim(t, l, request(1, card("B", 30*gib)))
	refused := func(err error) {
		require.Contains(t, []status.Code{status.FailedPrecondition, status.InvalidArgument}, status.CodeOf(err))
		sound(t, l)
	}
	refused(c.Park())        // nothing is reserved
	refused(c.Return(other)) // it is not parked
	refused(must.Err(waiting.Reserve(gib, host(64*gib))))
	for _, bytes := range []uint64{0, 1 << 60} {
		refused(must.Err(c.Reserve(bytes, host(64*gib))))
	}
	reserved(t, c, 30*gib, 64*gib, true)
	refused(must.Err(c.Reserve(gib, host(64*gib))))
	require.NoError(t, c.Park())
	refused(c.Park())
	refused(c.Unreserve())
	refused(c.Return(c))
	refused(c.Return(waiting)) // which has not looked since
	refused(must.Err(look(c)))
	require.NoError(t, c.Return(other))
	refused(c.Return(other))
	require.True(t, granted(t, waiting))
	require.Equal(t, []string{"B"}, names(c))
}

// parkAndReturn parks and returns, in the order of system calls that kill tests walk through.
func parkAndReturn(folder string, taken func(*ledger.Claim) error) error {
	l, err := ledger.Open(folder, true)
	if err != nil {
		return err
	}
	c, err := l.Claim(request(1, card("A", 30*gib)))
	if err != nil {
		return err
	}
	if err := taken(c); err != nil {
		return err
	}
	if ok, err := c.Reserve(30*gib, host(30*gib)); err != nil || !ok {
		return fmt.Errorf("reserve: %v, %w", ok, err)
	}
	if err := c.Park(); err != nil {
		return err
	}
	again, err := l.Claim(request(1, card("A", 30*gib)))
	if err != nil {
		return err
	}
	if granted, err := look(again); err != nil || !granted {
		return fmt.Errorf("wait: %v, %w", granted, err)
	}
	if err := c.Return(again); err != nil {
		return err
	}
	return c.Unreserve()
}

func init() {
	// parks FOLDER N: parks and returns, and kills itself before the N-th system call after the claim. A child of it,
	// the program, has inherited the claim and lives on.
	roles["parks"] = func(arguments []string) error {
		left, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		return parkAndReturn(arguments[0], func(c *ledger.Claim) error {
			fd, err := c.Descriptor()
			if err != nil {
				return err
			}
			program := exec.Command("sleep", "60")
			program.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "claim")}
			if err := program.Start(); err != nil {
				return err
			}
			fmt.Println(program.Process.Pid)
			ledger.BeforeSystemCall = func(string) {
				if left--; left == 0 {
					_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
					select {}
				}
			}
			return nil
		})
	}
}

// Who parks a program is killed before each step. The program lives: its claim is granted with all of its bytes, or
// parked with all of them reserved, and no other claim loses or gets anything by it. It ends, and all is free.
func TestAKillWhileParkingLeavesTheProgramItsClaim(t *testing.T) {
	needsHook(t)
	seen := map[string]int{}
	for n := 1; ; n++ {
		folder := filepath.Join(t.TempDir(), "ledger")
		output, ended := role("parks", folder, n).Output()
		var pid int
		must.OK(fmt.Sscan(string(output), &pid))(t, "%s", output)
		l := open(t, folder)
		sound(t, l)
		claims, _ := must.OK2(l.Rows())(t)
		require.Len(t, claims, 1, "before call %d", n)
		require.EqualValues(t, 30*gib, claims[0].Cards[0].Bytes)
		seen[claims[0].State.String()]++
		other := claim(t, l, request(1, card("A", 30*gib)))
		require.Equal(t, claims[0].State == ledger.Parked, granted(t, other), "before call %d", n)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		isAlone := func() bool { return granted(t, other) && len(states(t, l)) == 1 }
		require.Eventually(t, isAlone, 10*time.Second, time.Millisecond)
		sound(t, l)
		if ended == nil {
			break
		}
	}
	require.Greater(t, seen["parked"], 4)
	require.Greater(t, seen["granted"], 4)
}

// A gpuconf that does not know kind 3 passes over the slot: only its lock keeps it from being taken. The bytes of the
// entry and of the record are those that doc.go promises.
func TestHowAParkedClaimIsStored(t *testing.T) {
	l := private(t)
	parked(t, l, 30*gib)
	file := slots(t, l.Folder())
	data := must.OK(os.ReadFile(file))(t)
	entry, record := data[firstRow:firstRow+rowBytes], data[firstSlot:firstSlot+slotBytes]
	require.Equal(t, []byte{3, 2}, entry[:2])
	require.Equal(t, []byte{1, 2}, record[16:18])
	require.Contains(t, string(record), ledger.HostCard)
	sound(t, l)
	for range 200 { // more than a file has slots
		claim(t, l, request(1, card("B", mib)))
	}
	require.Contains(t, states(t, l), "parked")
	sound(t, l)
}

// Check finds a parked claim that has nothing of the host, and a host that is overcommitted.
func TestCheckFindsWhatIsWrongWithParkedClaims(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(1, card("A", 30*gib)))
	overwrite(t, slots(t, l.Folder()), firstRow, entry(0, 3, 2, bootTime()))
	require.Contains(t, l.Check()[0], "reserved nothing of the host's memory")
	c.Release()
	l = private(t)
	saved := thisVersion(2, leasedCard("A", 30*gib, 30*gib), leasedCard(ledger.HostCard, 30*gib, 30*gib))
	saved.count = 2
	again := saved
	again.ticket, again.granted, again.id = 2, 2, [16]byte{1}
	placed(t, l.Folder(), slotsLine, fileBytes, saved, again)
	for slot := range 2 {
		overwrite(t, slots(t, l.Folder()), int64(firstRow+slot*rowBytes), entry(byte(slot), 3, 2, bootTime()))
	}
	require.Len(t, l.Check(), 1)
	require.Contains(t, l.Check()[0], "the host's memory is overcommitted")
	require.Equal(t, []string{"parked", "parked"}, states(t, l))
}

func lent(t *testing.T, c *ledger.Claim, least, most uint64) uint64 {
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
