package ledger_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

func TestLeasesNeverExceedACard(t *testing.T) {
	l := private(t)
	first := claim(t, l, request(1, card("A", 30*gib)))
	require.True(t, granted(t, first))
	second := claim(t, l, request(1, card("A", 20*gib)))
	require.False(t, granted(t, second))
	sound(t, l)
	first.Release()
	require.True(t, granted(t, second))
	require.Equal(t, []ledger.CardLease{{UUID: "A", Bytes: 20 * gib, Charge: 20 * gib}}, second.Cards())
	sound(t, l)
}

func TestForeignUseReducesTheRoomWhileWaiting(t *testing.T) {
	l := private(t)
	busy := ledger.Card{UUID: "A", Bytes: 30 * gib, Total: 40 * gib, Budget: 20 * gib}
	c := claim(t, l, request(1, busy))
	require.False(t, granted(t, c))
	busy.Budget = 35 * gib
	ok, _, err := c.Look([]ledger.Card{busy})
	require.NoError(t, err)
	require.True(t, ok)
}

func TestSpreadAndPack(t *testing.T) {
	for _, row := range []struct {
		policy ledger.Policy
		want   string
	}{{ledger.Spread, "B"}, {ledger.Pack, "A"}} {
		l := private(t)
		claim(t, l, request(1, card("A", 10*gib)))
		r := request(1, card("A", 5*gib), card("B", 5*gib))
		r.Policy = row.policy
		require.Equal(t, []string{row.want}, names(claim(t, l, r)))
	}
}

func TestSeveralCardsAllOrNothing(t *testing.T) {
	l := private(t)
	first := claim(t, l, request(1, card("B", 30*gib)))
	both := claim(t, l, request(2, card("A", 20*gib), card("B", 20*gib)))
	require.False(t, granted(t, both))
	require.Empty(t, both.Cards())
	first.Release()
	require.True(t, granted(t, both))
	require.Equal(t, []string{"A", "B"}, names(both))
	sound(t, l)
}

func TestTwoClaimsOfTheSameCardsInOppositeOrderDoNotBlockEachOther(t *testing.T) {
	l := private(t)
	one := claim(t, l, request(2, card("A", 30*gib), card("B", 30*gib)))
	other := claim(t, l, request(2, card("B", 30*gib), card("A", 30*gib)))
	require.True(t, granted(t, one))
	require.False(t, granted(t, other))
	one.Release()
	require.True(t, granted(t, other))
}

func TestAYoungerRequestDoesNotDelayAnOlderOne(t *testing.T) {
	l := private(t)
	holder := claim(t, l, request(1, card("A", 30*gib)))
	large := claim(t, l, request(1, card("A", 20*gib)))
	small := claim(t, l, request(1, card("A", 5*gib)))
	require.False(t, granted(t, large))
	require.False(t, granted(t, small), "it would fit, but large waits for that room")
	elsewhere := claim(t, l, request(1, card("A", 5*gib), card("B", 5*gib)))
	require.Equal(t, []string{"B"}, names(elsewhere), "card B is not what large waits for")
	holder.Release()
	require.False(t, granted(t, holder2(t, l)), "still behind small")
	require.True(t, granted(t, large))
	require.True(t, granted(t, small))
	sound(t, l)
}

func holder2(t *testing.T, l *ledger.Ledger) *ledger.Claim {
	return claim(t, l, request(1, card("A", 30*gib)))
}

// A waiter for any of several cards holds one of them, the one with most room, and leaves the rest to others.
func TestAWaiterHoldsAsManyCardsAsItNeeds(t *testing.T) {
	l := private(t)
	claim(t, l, request(1, card("A", 10*gib)))
	claim(t, l, request(1, card("B", 20*gib)))
	large := claim(t, l, request(1, card("A", 35*gib), card("B", 35*gib)))
	require.False(t, granted(t, large))
	require.False(t, granted(t, claim(t, l, request(1, card("A", 6*gib)))), "large holds A")
	require.True(t, granted(t, claim(t, l, request(1, card("B", 20*gib)))))
}

func TestAClaimEndsWithItsProcess(t *testing.T) {
	l := private(t)
	holder, line := start(t, "hold", l.Folder(), 30)
	require.Equal(t, "granted: true", line)
	waiter := claim(t, l, request(1, card("A", 20*gib)))
	require.False(t, granted(t, waiter))
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 2)
	require.Equal(t, holder.Process.Pid, claims[0].Process.PID)
	require.True(t, claims[0].Local)
	require.False(t, claims[0].Gone)
	require.Equal(t, uint32(os.Geteuid()), claims[0].UID)
	kill(t, holder)
	require.True(t, granted(t, waiter))
	sound(t, l)
}

func TestAWaiterIsWokenByARelease(t *testing.T) {
	l := private(t)
	holder := claim(t, l, request(1, card("A", 30*gib)))
	waiter := claim(t, l, request(1, card("A", 20*gib)))
	done := make(chan error)
	go func() {
		ok, err := wait(l, waiter, 10*time.Second)
		if err == nil && !ok {
			err = os.ErrDeadlineExceeded
		}
		done <- err
	}()
	holder.Release()
	require.NoError(t, <-done)
}

// word returns a word of the wake file, on which processes sleep.
func word(t *testing.T, l *ledger.Ledger, number uint32) uint32 {
	text := must.OK(os.ReadFile(l.Folder() + "/wake"))(t)
	return binary.NativeEndian.Uint32(text[4*number:])
}

// The nap of a waiter ends with the release that makes it its turn, and not before.
func TestAReleaseChangesTheWordOfTheNextWaiter(t *testing.T) {
	l := private(t)
	holder, other := claim(t, l, request(1, card("A", 30*gib))), claim(t, l, request(1, card("B", gib)))
	waiter := claim(t, l, request(1, card("A", 20*gib)))
	ok, nap := must.OK2(waiter.Look(nil))(t)
	require.False(t, ok)
	require.False(t, nap.Deaf)
	other.Release()
	require.Equal(t, nap.Was, word(t, l, nap.Word))
	holder.Release()
	require.NotEqual(t, nap.Was, word(t, l, nap.Word))
	require.True(t, granted(t, waiter))
}

func TestAClaimOfAsManyCardsAsThereCanBe(t *testing.T) {
	l := private(t)
	cards := make([]ledger.Card, ledger.MostCards)
	for i := range cards {
		cards[i] = card(fmt.Sprint("A", i), gib)
	}
	c := claim(t, l, request(len(cards), cards...))
	require.True(t, granted(t, c))
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims[0].Cards, ledger.MostCards)
	sound(t, l)
	_, err := l.Claim(request(1, append(cards, card("B", gib))...))
	require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)
}

func TestAWithdrawnRequestDelaysNobody(t *testing.T) {
	l := private(t)
	claim(t, l, request(1, card("A", 30*gib)))
	large := claim(t, l, request(1, card("A", 20*gib)))
	small := claim(t, l, request(1, card("A", 5*gib)))
	require.False(t, granted(t, small))
	large.Release()
	require.True(t, granted(t, small))
}

// A dead waiter vanishes with its lock.
func TestAKilledWaiterDelaysNobody(t *testing.T) {
	l := private(t)
	claim(t, l, request(1, card("A", 30*gib)))
	waiter := role("hold", l.Folder(), 20)
	require.NoError(t, waiter.Start())
	require.Eventually(t, func() bool {
		claims, _, err := l.Rows()
		return err == nil && len(claims) == 2
	}, 10*time.Second, time.Millisecond)
	small := claim(t, l, request(1, card("A", 5*gib)))
	require.False(t, granted(t, small))
	kill(t, waiter)
	require.True(t, granted(t, small))
}

func TestAnInheritedClaimLivesUntilTheLastChildEnds(t *testing.T) {
	l := private(t)
	c := must.OK(l.Claim(request(1, card("A", 30*gib))))(t)
	fd := must.OK(c.Descriptor())(t)
	child := role("hold", t.TempDir()+"/other", 1)
	child.ExtraFiles = []*os.File{duplicate(t, fd)}
	stdin := must.OK(child.StdinPipe())(t)
	stdout := must.OK(child.StdoutPipe())(t)
	require.NoError(t, child.Start())
	firstLine(t, stdout.Read)
	require.NoError(t, child.ExtraFiles[0].Close())
	require.NoError(t, unix.Close(fd)) // as if this process had ended
	require.False(t, granted(t, claim(t, l, request(1, card("A", 20*gib)))))
	sound(t, l)
	require.NoError(t, stdin.Close())
	require.NoError(t, child.Wait())
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 1)
}

// Its slot stays locked, and is passed over.
func TestAReleaseFreesWhatAChildInherited(t *testing.T) {
	l := private(t)
	c := claim(t, l, request(1, card("A", 30*gib)))
	fd := must.OK(c.Descriptor())(t)
	child := role("hold", t.TempDir()+"/other", 1)
	child.ExtraFiles = []*os.File{duplicate(t, fd)}
	stdout := must.OK(child.StdoutPipe())(t)
	stdin := must.OK(child.StdinPipe())(t)
	require.NoError(t, child.Start())
	firstLine(t, stdout.Read)
	require.NoError(t, child.ExtraFiles[0].Close())
	c.Release()
	require.True(t, granted(t, claim(t, l, request(1, card("A", 40*gib)))))
	sound(t, l)
	require.NoError(t, stdin.Close())
	require.NoError(t, child.Wait())
	sound(t, l)
}

func TestMoreClaimsThanAFileHas(t *testing.T) {
	l := private(t)
	for range 300 {
		require.True(t, granted(t, claim(t, l, request(1, card("A", 1<<20)))))
	}
	sound(t, l)
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 300)
}

func TestRequestsThatCannotBe(t *testing.T) {
	l := private(t)
	for name, r := range map[string]ledger.Request{
		"no card":                request(1),
		"more cards than given":  request(2, card("A", gib)),
		"no count":               request(0, card("A", gib)),
		"a card twice":           request(1, card("A", gib), card("A", gib)),
		"no bytes":               request(1, card("A", 0)),
		"more than any card has": request(1, card("A", 41*gib)),
		"more than two have":     request(2, card("A", gib), card("B", 41*gib)),
		"a UUID of two words":    request(1, card("A B", gib)),
		"a UUID without end": request(
			1, card("A234567890123456789012345678901234567890123456789012345678901234567890", gib)),
	} {
		_, err := l.Claim(r)
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%s: %v", name, err)
	}
	claims, _ := must.OK2(l.Rows())(t)
	require.Empty(t, claims)
}

func TestTextsOfOthersAreShownSafely(t *testing.T) {
	l := private(t)
	r := request(1, card("A", gib))
	r.Text = ledger.Text{Name: "red \x1b[31m\u202ename", Job: "line\nbreak", Command: string(make([]byte, 10_000))}
	claim(t, l, r)
	claims, _ := must.OK2(l.Rows())(t)
	require.Equal(t, "red  [31m name", claims[0].Text.Name)
	require.Equal(t, "line break", claims[0].Text.Job)
	require.Len(t, claims[0].Text.Command, 256)
}

// What cannot be seen could make two names look the same.
func TestTextsShowAllThatTheyHave(t *testing.T) {
	for _, hidden := range []rune{0x00, 0x1b, 0x7f, 0x85, 0xad, 0x34f, 0x61c, 0x115f, 0x180e, 0x200b, 0x200d, 0x200e,
		0x200f, 0x2028, 0x202e, 0x2060, 0x2066, 0x3164, 0xfeff, 0xe0041} {
		require.Equal(t, "ro ot", ledger.Clean("ro"+string(hidden)+"ot", 64), "%U", hidden)
	}
	for _, text := range []string{"naïve", "模型", "обучение", "نموذج", "❤️ 2"} {
		require.Equal(t, text, ledger.Clean(text, 64))
	}
}

func duplicate(t *testing.T, fd int) *os.File {
	copied := must.OK(unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0))(t)
	return os.NewFile(uintptr(copied), "claim")
}

// Both fit after the release, and the older one sleeps: it is not passed.
func TestAClaimWaitsForAnOlderOneOfItsClass(t *testing.T) {
	l := private(t)
	holder := claim(t, l, request(1, card("A", 40*gib)))
	older := claim(t, l, request(1, card("A", 10*gib)))
	younger := claim(t, l, request(1, card("A", 10*gib)))
	other := claim(t, l, request(1, card("A", 5*gib)))
	holder.Release()
	require.False(t, granted(t, younger))
	require.True(t, granted(t, other))
	require.True(t, granted(t, older))
	require.True(t, granted(t, younger))
	sound(t, l)
}

// TestCloseDuringAWait closes a ledger while a claim waits in it. The race detector once reported that the wait read
// the wake file's descriptor, which another file may have by then.
func TestCloseDuringAWait(t *testing.T) {
	folder := t.TempDir() + "/ledger"
	for range 20 {
		l := must.OK(ledger.Open(folder, true))(t)
		holder := must.OK(l.Claim(request(1, card("GPU-a", 40*gib))))(t)
		waiter := must.OK(l.Claim(request(1, card("GPU-a", 40*gib))))(t)
		waiting, done := make(chan struct{}), make(chan error)
		go func() {
			close(waiting)
			for {
				if _, err := wait(l, waiter, time.Millisecond); err != nil {
					done <- err
					return
				}
			}
		}()
		<-waiting
		require.NoError(t, l.Close())
		require.Equal(t, status.FailedPrecondition, status.CodeOf(<-done))
		waiter.Release()
		holder.Release()
	}
}
