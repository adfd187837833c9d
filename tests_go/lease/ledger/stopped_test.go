package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/invariants"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

func init() {
	// queue FOLDER GIB: claims bytes of card A, says so, waits for them, says so, and holds them until its standard
	// input ends.
	roles["queue"] = func(arguments []string) error {
		l, err := ledger.Open(arguments[0], true)
		if err != nil {
			return err
		}
		var size uint64
		if _, err := fmt.Sscan(arguments[1], &size); err != nil {
			return err
		}
		c, err := l.Claim(request(1, card("A", size*gib)))
		if err != nil {
			return err
		}
		fmt.Println("waiting")
		if ok, err := wait(l, c, time.Minute); !ok || err != nil {
			return fmt.Errorf("not granted: %w", err)
		}
		_, _ = os.Stdin.Read(make([]byte, 1))
		return nil
	}
}

// A waiter that is stopped for seconds does not keep those behind it from going on, and is in its place again when it
// goes on. One that runs is not passed, however long it waits.
func TestAStoppedWaiterIsPassedAndKeepsItsPlace(t *testing.T) {
	t.Parallel()
	l := private(t)
	holder := claim(t, l, request(1, card("A", 30*gib)))
	first, line := start(t, "queue", l.Folder(), 20)
	require.Equal(t, "waiting", line)
	second := claim(t, l, request(1, card("A", 20*gib)))

	stop(t, first.Process)
	holder.Release()
	ok := must.OK(wait(l, second, time.Second))(t)
	require.False(t, ok, "it is the turn of the first one, which may only be slow")
	ok = must.OK(wait(l, second, time.Minute))(t)
	require.True(t, ok)
	third := claim(t, l, request(1, card("A", 30*gib)))
	require.False(t, granted(t, third))

	require.NoError(t, first.Process.Signal(syscall.SIGCONT))
	ok = must.OK(wait(l, third, 7*time.Second))(t)
	require.False(t, ok)
	second.Release()
	require.Eventually(t, func() bool {
		claims, _ := must.OK2(l.Rows())(t)
		return len(claims) == 2 && claims[0].State == ledger.Granted && claims[0].Process.PID == first.Process.Pid
	}, 10*time.Second, 10*time.Millisecond)
	require.False(t, granted(t, third), "20 of 40 GiB are left")
	sound(t, l)
}

// stop stops a process, and waits for it: a thread runs on until it takes notice of the signal.
func stop(t *testing.T, p *os.Process) {
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		threads := must.OK(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid)))(t)
		for _, path := range threads {
			text, err := os.ReadFile(path)
			if _, state, found := strings.Cut(string(text), ") "); err != nil || !found || state[0] != 'T' {
				return false
			}
		}
		return len(threads) > 0
	}, 10*time.Second, time.Millisecond)
}

// beforeOpening does something once, before this process next opens a file of slots. The test must not run
// beside others.
func beforeOpening(t *testing.T, do func()) {
	if !invariants.Enabled {
		t.Skip("system calls can be told only in builds with invariants")
	}
	t.Cleanup(func() { ledger.BeforeSystemCall = nil })
	ledger.BeforeSystemCall = func(call string) {
		if strings.HasPrefix(call, "open slots") {
			ledger.BeforeSystemCall = nil
			do()
		}
	}
}

// A process is stopped for more than a second in the middle of its look, as by a debugger or a busy machine. A waiter
// that has looked meanwhile is before it all the same.
func TestAProcessThatWasStoppedPassesNobody(t *testing.T) {
	l := private(t)
	claim(t, l, request(1, card("A", 30*gib)))
	waiter := claim(t, l, request(1, card("A", 40*gib)))
	late := open(t, l.Folder())
	beforeOpening(t, func() {
		time.Sleep(1100 * time.Millisecond)
		require.False(t, must.OK(wait(l, waiter, time.Nanosecond))(t))
	})
	require.False(t, granted(t, claim(t, late, request(1, card("A", 5*gib)))), "the waiter needs the whole card")
	claims, _ := must.OK2(late.Rows())(t)
	require.Len(t, claims, 3)
	sound(t, l)
}

// A slot is taken in the file that was looked at. Another one that has its name now is refused: it has none of the
// claims that were counted.
func TestASlotIsNotTakenInAFileThatReplacedItsOwn(t *testing.T) {
	l := private(t)
	claim(t, l, request(1, card("A", gib))).Release()
	path := slots(t, l.Folder())
	beforeOpening(t, func() {
		require.NoError(t, os.WriteFile(path+".new", must.OK(os.ReadFile(path))(t), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	})
	_, err := l.Claim(request(1, card("A", gib)))
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "it was replaced while it was in use")
	sound(t, l)
}
