package ledger_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/invariants"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/pool/figures"
	"gpuconf/tests_go/must"
)

// everything uses each operation of a ledger at least once.
func everything(folder string) error {
	l, err := ledger.Open(folder, true)
	if err != nil {
		return err
	}
	holder, err := l.Claim(request(2, card("A", 30*gib), card("B", 30*gib)))
	if err != nil {
		return err
	}
	published, err := l.Publish(holder.ID(), ledger.Text{Command: "everything"})
	if err != nil {
		return err
	}
	if _, err := published.SetPools([]figures.Place{{UUID: "A"}}); err != nil {
		return err
	}
	waiter, err := l.Claim(request(1, card("A", 20*gib)))
	if err != nil {
		return err
	}
	withdrawn, err := l.Claim(request(1, card("B", 20*gib)))
	if err != nil {
		return err
	}
	if _, _, err := withdrawn.Look([]ledger.Card{card("B", 21*gib)}); err != nil {
		return err
	}
	withdrawn.Release()
	holder.Release()
	if _, err := look(waiter); err != nil {
		return err
	}
	published.End()
	waiter.Release()
	return l.Close()
}

func init() {
	// walk FOLDER N: does everything, and kills itself before the N-th system call.
	roles["walk"] = func(arguments []string) error {
		left, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		ledger.BeforeSystemCall = func(string) {
			if left--; left == 0 {
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		return everything(arguments[0])
	}
	// walkInit FOLDER N: makes a shared ledger, and kills itself before the N-th system call.
	roles["walkInit"] = func(arguments []string) error {
		left, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		ledger.BeforeSystemCall = func(string) {
			if left--; left == 0 {
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		return ledger.InitShared(arguments[0], -1)
	}
}

// killedAt runs a role that kills itself before its n-th system call, and reports whether it ended before that.
func killedAt(t *testing.T, name, folder string, n int) (finished bool) {
	output, err := role(name, folder, n).CombinedOutput()
	if err == nil {
		return true
	}
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended, "%s", output)
	require.Equal(t, syscall.SIGKILL, ended.Sys().(syscall.WaitStatus).Signal(), "before call %d: %s", n, output)
	return false
}

func needsHook(t *testing.T) {
	t.Helper()
	if !invariants.Enabled {
		t.Skip("built without invariants: the hook before system calls is compiled out")
	}
}

// A process that is killed anywhere leaves a sound ledger, whose memory the next process gets.
func TestAKillAnywhereLeavesASoundLedger(t *testing.T) {
	needsHook(t)
	n := 1
	for ; ; n++ {
		folder := filepath.Join(t.TempDir(), "ledger")
		finished := killedAt(t, "walk", folder, n)
		l := must.OK(ledger.Open(folder, true))(t, "before call %d", n)
		getsAll(t, l, n)
		require.NoError(t, l.Close())
		if finished {
			break
		}
	}
	require.Greater(t, n, 60, "the walk is short: does everything still use everything?")
}

// The same beside live claims of others, which stay.
func TestAKillAnywhereLeavesTheClaimsOfOthers(t *testing.T) {
	needsHook(t)
	l := private(t)
	other := claim(t, l, request(1, card("Z", 40*gib)))
	for n := 1; ; n++ {
		finished := killedAt(t, "walk", l.Folder(), n)
		claims, processes := must.OK2(l.Rows())(t)
		require.Len(t, claims, 1)
		require.Equal(t, other.ID(), claims[0].ID)
		require.Empty(t, processes)
		getsAll(t, l, n)
		if finished {
			break
		}
	}
	require.Len(t, must.OK(filepath.Glob(l.Folder()+"/*slots*"))(t), 1)
	require.Empty(t, must.OK(filepath.Glob(l.Folder()+"/.new*"))(t))
}

func getsAll(t *testing.T, l *ledger.Ledger, n int) {
	require.Empty(t, l.Check(), "before call %d", n)
	c := must.OK(l.Claim(request(2, card("A", 40*gib), card("B", 40*gib))))(t)
	require.Len(t, c.Cards(), 2, "before call %d", n)
	require.Empty(t, l.Check(), "before call %d", n)
	c.Release()
	require.Empty(t, l.Check(), "before call %d", n)
}

func TestAKilledInitCanBeRepeated(t *testing.T) {
	needsHook(t)
	for n := 1; ; n++ {
		folder := filepath.Join(t.TempDir(), "ledger")
		finished := killedAt(t, "walkInit", folder, n)
		require.NoError(t, ledger.InitShared(folder, -1), "before call %d", n)
		l := open(t, folder)
		require.True(t, l.Shared)
		require.Empty(t, l.Check())
		if finished {
			return
		}
	}
}
