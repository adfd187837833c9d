package ledger_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

// spoiled are files that a user can put into a shared ledger, or make of their own.
var spoiled = map[string]func(path string) (*os.File, error){
	"truncated": func(path string) (*os.File, error) { return place(path, slotsLine, 1000) },
	"long":      func(path string) (*os.File, error) { return place(path, slotsLine, 1<<30) },
	"another":   func(path string) (*os.File, error) { return place(path, "something else\n", fileBytes) },
	"later": func(path string) (*os.File, error) {
		return place(path, "gpuconf slots version 99 reader 99\n", fileBytes)
	},
	"pipe":   func(path string) (*os.File, error) { return nil, unix.Mkfifo(path, 0o644) },
	"folder": func(path string) (*os.File, error) { return nil, os.Mkdir(path, 0o755) },
	"secret": func(path string) (*os.File, error) {
		file, err := place(path, slotsLine, fileBytes)
		return file, errors.Join(err, os.Chmod(path, 0))
	},
	"writable": func(path string) (*os.File, error) {
		file, err := place(path, slotsLine, fileBytes)
		return file, errors.Join(err, os.Chmod(path, 0o666))
	},
	"slots": func(path string) (*os.File, error) { // all alive, none readable
		file, err := place(path, slotsLine, fileBytes)
		for slot := range 128 {
			_, failed := file.WriteAt(entry(byte(slot), 1, 2, 0), int64(firstRow+slot*rowBytes))
			err = errors.Join(err, failed, lockSlot(file, slot))
		}
		return file, err
	},
	"directory": func(path string) (*os.File, error) {
		file, err := place(path, slotsLine, fileBytes)
		for slot := range 128 {
			err = errors.Join(err, lockSlot(file, slot))
		}
		return file, err
	},
}

func lockSlot(file *os.File, slot int) error {
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: firstSlot +
		int64(slot)*slotBytes, Len: 1})
}

func init() {
	// spoil FOLDER HOW: puts a spoiled file into a ledger, until its input ends.
	roles["spoil"] = func(arguments []string) error {
		file, err := spoiled[arguments[1]](arguments[0] + "/slots-61002-0123456789ab")
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return nil
	}
	// forge FOLDER TICKET STATE: a claim of card Z with a ticket and a grant number, until its input ends; then its
	// file is gone.
	roles["forge"] = func(arguments []string) error {
		number, err := strconv.ParseUint(arguments[1], 10, 64)
		if err != nil {
			return err
		}
		c := leasedCard("Z", gib, gib)
		c.Leased = arguments[2] == "2"
		forged := thisVersion(arguments[2][0]-'0', c)
		forged.ticket, forged.granted = number, number
		path := fmt.Sprintf("%s/slots-%d-%s", arguments[0], os.Geteuid(), arguments[1])
		file, err := place(path, slotsLine, fileBytes, forged)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return errors.Join(os.Remove(path), file.Close())
	}
	// litter FOLDER N: makes N sparse slot files without a lease.
	roles["litter"] = func(arguments []string) error {
		n, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		for i := range n {
			file, err := place(fmt.Sprintf("%s/slots-%d-%012d", arguments[0], os.Geteuid(), i), slotsLine, fileBytes)
			if err != nil {
				return err
			}
			_ = file.Close()
		}
		fmt.Println("ready")
		return nil
	}
	// keepLocking FOLDER: read-locks all slots of all files, again and again. The kernel names the process of such
	// locks.
	roles["keepLocking"] = func(arguments []string) error {
		open := map[string]*os.File{}
		for round := 0; ; round++ {
			files, err := filepath.Glob(arguments[0] + "/slots-*")
			if err != nil {
				return err
			}
			for _, path := range files {
				if open[path] == nil {
					if open[path], err = os.Open(path); err != nil {
						delete(open, path)
						continue
					}
				}
				for slot := range int64(128) {
					_ = unix.FcntlFlock(open[path].Fd(), unix.F_SETLK,
						&unix.Flock_t{Type: unix.F_RDLCK, Start: firstSlot + slot*slotBytes, Len: slotBytes})
				}
			}
			if round == 1 {
				fmt.Println("ready")
			}
		}
	}
	// few FOLDER N: holds card A with at most N open files.
	roles["few"] = func(arguments []string) error {
		n, err := strconv.ParseUint(arguments[1], 10, 64)
		if err != nil {
			return err
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
		return roles["hold"]([]string{arguments[0], "1"})
	}
}

// What another user spoils in a shared ledger is the spoiler's own loss. The others go on, each within its bytes, and a
// check names file and user.
func TestASpoiledFileOfAnotherUserStopsNobody(t *testing.T) {
	for how := range spoiled {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			folder := shared(t, -1)
			_, line := start(t, "as", alice, alice, "hold", folder, 30)
			require.Equal(t, "granted: true", line)
			_, line = start(t, "as", bob, bob, "spoil", folder, how)
			require.Equal(t, "ready", line)
			_, line = start(t, "as", alice, alice, "hold", folder, 10)
			require.Equal(t, "granted: true", line)
			l := open(t, folder)
			require.False(t, granted(t, claim(t, l, request(1, card("A", gib)))))
			require.True(t, granted(t, claim(t, l, request(1, card("B", gib)))))
			claims, _ := must.OK2(l.Rows())(t)
			require.Len(t, claims, 4)
			if how == "secret" {
				return // root may read it
			}
			findings := l.Check()
			require.NotEmpty(t, findings)
			for _, finding := range findings {
				require.Contains(t, finding, folder+"/slots-61002-0123456789ab")
				require.Contains(t, finding, "of user 61002")
			}
		})
	}
}

// Honest users get no number that readers refuse, whatever they have seen, and their order stays.
func TestForgedNumbersAreNotCountedOnFrom(t *testing.T) {
	for _, number := range []uint64{math.MaxUint64, math.MaxUint64 - 1, 1 << 63, 1<<62 - 1, bootTime() - 1e9} {
		for _, state := range []string{"1", "2"} {
			folder := shared(t, -1)
			forger, line := start(t, "as", bob, bob, "forge", folder, number, state)
			require.Equal(t, "ready", line)
			l := open(t, folder)
			holder := claim(t, l, request(1, card("A", 40*gib)))
			require.True(t, granted(t, holder))
			first, second := claim(t, l, request(1, card("A", 40*gib))), claim(t, l, request(1, card("A", 40*gib)))
			if number >= 1<<62-1 {
				require.Regexp(t, `is forged: no gpuconf counts that far .*/slots-61002-\d+, slot 0, of user 61002`,
					l.Check()[0])
			}
			kill(t, forger)
			files := must.OK(filepath.Glob(folder + "/slots-61002-*"))(t)
			require.NoError(t, os.Remove(files[0]))
			third := claim(t, l, request(1, card("A", 40*gib)))
			l = open(t, folder)
			sound(t, l)
			claims, _ := must.OK2(l.Rows())(t)
			require.Equal(t, []ledger.ID{holder.ID(), first.ID(), second.ID(), third.ID()},
				[]ledger.ID{claims[0].ID, claims[1].ID, claims[2].ID, claims[3].ID})
			for _, next := range []*ledger.Claim{first, second, third} {
				require.False(t, granted(t, next))
				holder.Release()
				require.True(t, granted(t, next))
				holder = next
			}
		}
	}
}

// A copy of a waiting claim's identity takes nothing from it.
func TestAForgedIdentityTakesNothing(t *testing.T) {
	l := private(t)
	holder := claim(t, l, request(1, card("A", 30*gib)))
	waiter := claim(t, l, request(1, card("A", 30*gib)))
	data := make([]byte, 1024)
	file := must.OK(os.Open(slots(t, l.Folder())))(t)
	must.OK(file.ReadAt(data, firstSlot+slotBytes))(t)
	require.NoError(t, file.Close())
	forged := thisVersion(2, leasedCard("A", 30*gib, 30*gib))
	forged.id, forged.ticket = [16]byte(data[32:]), 9
	copied := placed(t, l.Folder(), slotsLine, fileBytes, forged)
	require.Contains(t, l.Check()[0], "is in two slots")
	holder.Release()
	require.False(t, granted(t, waiter), "the forged lease has 30 of 40 GiB")
	require.NoError(t, copied.Close())
	require.True(t, granted(t, waiter))
}

// Thousands of files cost no descriptors, and the text says whose they are.
func TestManyFilesOfAnotherUser(t *testing.T) {
	folder := shared(t, -1)
	output, err := role("as", bob, bob, "litter", folder, 200).CombinedOutput()
	require.NoError(t, err, "%s", output)
	for range 2 {
		_, line := start(t, "as", alice, alice, "few", folder, 100)
		require.Equal(t, "granted: true", line)
	}
	l := open(t, folder)
	require.Equal(t, []string{folder + ": user 61002 has more than 32 slot files, which gpuconf never makes. The " +
		"others are ignored: remove them"}, l.Check())
	for i := range 4000 {
		require.NoError(t, os.Link(fmt.Sprintf("%s/slots-%d-%012d", folder, bob, 0), fmt.Sprintf("%s/x%d", folder, i)))
	}
	must.Fail(t, status.FailedPrecondition, must.Err(l.Claim(request(1, card("A", gib)))),
		folder+" holds more than 4096 files, most of them of user 61002")
}

// Read locks on another user's slots, of which there is a new one as soon as there is a new file, keep no user from a
// lease, and make no more files than leases. At the end of all files, the error names the process.
func TestReadLocksOnAnotherUsersSlots(t *testing.T) {
	folder := shared(t, -1)
	l := open(t, folder)
	claim(t, l, request(1, card("B", gib)))
	vandal, line := start(t, "as", bob, bob, "keepLocking", folder)
	require.Equal(t, "ready", line)
	for range 20 {
		c := claim(t, l, request(1, card("A", 40*gib)))
		require.True(t, granted(t, c))
		time.Sleep(time.Millisecond)
		c.Release()
	}
	files := must.OK(filepath.Glob(folder + "/slots-*"))(t)
	require.LessOrEqual(t, len(files), 2)
	allLocked(t, folder)
	for len(files) < 32 {
		claim(t, l, request(1, card("A", 1<<10)))
		files = allLocked(t, folder)
	}
	_, err := l.Claim(request(1, card("A", 1<<10)))
	require.Equal(t, status.Unavailable, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, fmt.Sprintf("user 0 has 32 slot files, the most that a user may have, and no slot "+
		"of them is free; process %d locks", vandal.Process.Pid))
	files = must.OK(filepath.Glob(folder + "/slots-*"))(t)
	require.Len(t, files, 32)
	sound(t, l)
	kill(t, vandal)
	require.True(t, granted(t, claim(t, l, request(1, card("A", gib)))))
}

// allLocked waits until no slot of the files can be taken, and returns the files.
func allLocked(t *testing.T, folder string) (files []string) {
	files = must.OK(filepath.Glob(folder + "/slots-*"))(t)
	for _, path := range files {
		file := must.OK(os.Open(path))(t)
		require.Eventually(t, func() bool {
			for slot := range int64(128) {
				lock := unix.Flock_t{Type: unix.F_WRLCK, Start: firstSlot + slot*slotBytes, Len: 1}
				if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
					return false
				}
			}
			return true
		}, 30*time.Second, time.Millisecond)
		require.NoError(t, file.Close())
	}
	return files
}

// A waiter that was stopped long ago is passed at once, by who has never seen it, and shown as stopped. One that states
// a time that is still to come steps aside too.
func TestAWaiterThatHasNotLookedForSecondsIsPassedAtOnce(t *testing.T) {
	for name, looked := range map[string]uint64{"long ago": bootTime() - 6e9, "never": 0, "in a minute": bootTime() +
		60e9, "never, at the end": math.MaxUint64} {
		l := private(t)
		waiting := thisVersion(1, card("A", 40*gib), card("B", 40*gib))
		waiting.cards[0].Charge, waiting.cards[1].Charge, waiting.count = 40*gib, 40*gib, 2
		file := placed(t, l.Folder(), slotsLine, fileBytes, waiting)
		require.False(t, granted(t, claim(t, open(t, l.Folder()), request(1, card("A", gib)))), name)
		must.OK(file.WriteAt(entry(0, 1, 1, looked), firstRow))(t)
		require.True(t, granted(t, claim(t, open(t, l.Folder()), request(1, card("B", gib)))), name)
		claims, _ := must.OK2(l.Rows())(t)
		require.True(t, claims[0].Stopped, name)
		require.Equal(t, ledger.Waiting, claims[0].State, name)
		sound(t, l)
	}
}

func TestAWaiterSaysWhenItLooked(t *testing.T) {
	l := private(t)
	claim(t, l, request(1, card("A", 40*gib)))
	waiter := claim(t, l, request(1, card("A", 40*gib)))
	for range 2 {
		before := bootTime()
		require.False(t, must.OK(wait(l, waiter, time.Nanosecond))(t))
		require.False(t, granted(t, waiter))
		row := make([]byte, rowBytes)
		file := must.OK(os.Open(slots(t, l.Folder())))(t)
		must.OK(file.ReadAt(row, firstRow+rowBytes))(t)
		require.NoError(t, file.Close())
		looked := uint64(0)
		for i := range 8 {
			looked |= uint64(row[8+i]) << (8 * i)
		}
		require.GreaterOrEqual(t, looked, before)
		require.LessOrEqual(t, looked, bootTime())
	}
}
