package ledger_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/invariants"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

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
		require.False(t, must.OK(waiter.Wait(nil, time.Nanosecond))(t))
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
