package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

const (
	alice = 61001
	bob   = 61002
	group = 61100
)

func init() {
	// as USER GROUP ROLE...: the role as another user.
	roles["as"] = func(arguments []string) error {
		user, err := strconv.Atoi(arguments[0])
		if err != nil {
			return err
		}
		own, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		err = errors.Join(syscall.Setgroups(nil), syscall.Setgid(own), syscall.Setuid(user))
		if err != nil {
			return err
		}
		return roles[arguments[2]](arguments[3:])
	}
	// attack FOLDER VICTIM: tries everything that a user must not be able to do to another's files, and reports what
	// succeeded.
	roles["attack"] = func(arguments []string) error {
		folder, victim := arguments[0], arguments[1]
		for what, try := range map[string]func() error{
			"write":             func() error { return os.WriteFile(victim, []byte("x"), 0) },
			"truncate":          func() error { return os.Truncate(victim, 0) },
			"remove":            func() error { return os.Remove(victim) },
			"rename":            func() error { return os.Rename(victim, folder+"/mine") },
			"replace":           func() error { return os.Rename(folder+"/bait", victim) },
			"chmod":             func() error { return os.Chmod(victim, 0o666) },
			"replace header":    func() error { return os.Rename(folder+"/bait", folder+"/ledger") },
			"remove header":     func() error { return os.Remove(folder + "/ledger") },
			"write header":      func() error { return os.WriteFile(folder+"/ledger", []byte("x"), 0) },
			"remove wake":       func() error { return os.Remove(folder + "/wake") },
			"rename the folder": func() error { return os.Rename(folder, folder+"-mine") },
			"lock a slot": func() error {
				file, err := os.Open(victim)
				if err != nil {
					return err
				}
				return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1 << 20})
			},
		} {
			if err := os.WriteFile(folder+"/bait", nil, 0o600); err != nil {
				return err
			}
			if try() == nil {
				fmt.Println("succeeded:", what)
			}
		}
		fmt.Println("done")
		return nil
	}
	// vandalize FOLDER: does what a user can do: spoils the wake file and read-locks all slots of all files, until its
	// input ends.
	roles["vandalize"] = func(arguments []string) error {
		if err := os.Truncate(arguments[0]+"/wake", 0); err != nil {
			return err
		}
		files, err := filepath.Glob(arguments[0] + "/slots-*")
		if err != nil {
			return err
		}
		for _, path := range files {
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Start: 0,
				Len: 65536}); err != nil {
				return err
			}
			for slot := range int64(128) { // those that are free
				_ = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Start: 65536 +
					slot*slotBytes, Len: slotBytes})
			}
			defer func() { _ = file.Close() }()
		}
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return nil
	}
}

// shared returns the folder of a shared ledger, which other users can reach.
func shared(t *testing.T, group int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	above := must.OK(os.MkdirTemp("", "ledger"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(above)) })
	require.NoError(t, os.Chmod(above, 0o755))
	require.NoError(t, ledger.InitShared(above+"/ledger", group))
	return above + "/ledger"
}

func TestUsersShareACardAndSeeEachOther(t *testing.T) {
	folder := shared(t, -1)
	first, line := start(t, "as", alice, alice, "hold", folder, 30)
	require.Equal(t, "granted: true", line)
	_, line = start(t, "as", bob, bob, "hold", folder, 10)
	require.Equal(t, "granted: true", line)

	l := open(t, folder)
	require.True(t, l.Shared)
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 2)
	require.Equal(t, []uint32{alice, bob}, []uint32{claims[0].UID, claims[1].UID})
	sound(t, l)
	waiter := claim(t, l, request(1, card("A", 20*gib)))
	require.False(t, granted(t, waiter))
	kill(t, first)
	require.True(t, must.OK(wait(l, waiter, 10*time.Second))(t))
	sound(t, l)
}

func TestAUserCannotChangeWhatOthersHave(t *testing.T) {
	folder := shared(t, -1)
	start(t, "as", alice, alice, "hold", folder, 30)
	l := open(t, folder)
	before, _ := must.OK2(l.Rows())(t)
	// under coverage, stderr says that bob may not write it
	output, err := role("as", bob, bob, "attack", folder, slots(t, folder)).Output()
	require.NoError(t, err, "%s", output)
	require.Equal(t, "done\n", string(output))
	require.NoError(t, os.Remove(folder+"/bait"))
	after, _ := must.OK2(l.Rows())(t)
	require.Equal(t, before[0].ID, after[0].ID)
	sound(t, l)
}

// Read locks of others on this user's slots, and a truncated wake file, cost time and space.
func TestAVandalStopsNobody(t *testing.T) {
	folder := shared(t, -1)
	holder, _ := start(t, "as", alice, alice, "hold", folder, 30)
	l := open(t, folder)
	own := claim(t, l, request(1, card("B", gib)))
	require.True(t, granted(t, own))
	_, line := start(t, "as", bob, bob, "vandalize", folder)
	require.Equal(t, "ready", line)
	waiter := claim(t, l, request(1, card("A", 20*gib)))
	require.False(t, granted(t, waiter))
	kill(t, holder)
	require.True(t, must.OK(wait(l, waiter, 10*time.Second))(t))
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 2)
}

// A link from another user's slot name to a file is neither followed nor written through.
func TestLinksOfOthersAreNotFollowed(t *testing.T) {
	folder := shared(t, -1)
	target := filepath.Join(filepath.Dir(folder), "target")
	require.NoError(t, os.WriteFile(target, []byte("precious"), 0o666))
	require.NoError(t, os.Symlink(target, folder+"/slots-61001-x"))
	require.NoError(t, os.Lchown(folder+"/slots-61001-x", bob, bob))
	_, line := start(t, "as", alice, alice, "hold", folder, 1)
	require.Equal(t, "granted: true", line)
	require.Regexp(t, folder+"/slots-61001-x is a symbolic link.* .of user 61002; its leases are not counted",
		open(t, folder).Check()[0])
	require.Equal(t, "precious", string(must.OK(os.ReadFile(target))(t)))
}

// Only a member of the group gets in, and others do not see the leases.
func TestALedgerOfAGroup(t *testing.T) {
	folder := shared(t, group)
	_, line := start(t, "as", alice, group, "hold", folder, 30)
	require.Equal(t, "granted: true", line)
	_, line = start(t, "as", bob, group, "hold", folder, 10)
	require.Equal(t, "granted: true", line)
	output, err := role("as", bob, bob, "hold", folder, 1).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "permission denied")
	files := must.OK(filepath.Glob(folder + "/slots-*"))(t)
	require.Len(t, files, 2)
	for _, path := range files {
		info := must.OK(os.Stat(path))(t)
		require.Equal(t, os.FileMode(0o640), info.Mode())
		require.Equal(t, uint32(group), info.Sys().(*syscall.Stat_t).Gid)
	}
}

// Root does not leave a file in a user's private ledger that the user could not read.
func TestAPrivateLedgerIsForItsUserAlone(t *testing.T) {
	folder := filepath.Dir(shared(t, -1)) + "/alices"
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.Chown(folder, alice, alice))
	start(t, "as", alice, alice, "hold", folder, 30)
	l := open(t, folder)
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 1)
	must.Fail(t, status.FailedPrecondition, must.Err(l.Claim(request(1, card("A", gib)))),
		"is the ledger of user 61001 alone")
	sound(t, l)
	require.NotEmpty(t, slots(t, folder))
}

func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	folder := filepath.Dir(shared(t, -1)) + "/bobs"
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.Chown(folder, bob, bob))
	output, err := role("as", alice, alice, "hold", folder, 1).CombinedOutput()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	require.Contains(t, string(output), "belongs to user 61002 and holds no ledger")
	require.NoError(t, os.WriteFile(folder+"/ledger", []byte("gpuconf ledger version 3 reader 3 shared\n"), 0o644))
	output, err = role("as", alice, alice, "hold", folder, 1).CombinedOutput()
	require.ErrorAs(t, err, &ended)
	require.Contains(t, string(output), "belongs to user 0, and the folder to user 61002")
	require.NotContains(t, strings.ToLower(string(output)), "panic")
}
