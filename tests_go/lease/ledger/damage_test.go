package ledger_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

// slots returns the path of the only slot file.
func slots(t *testing.T, folder string) string {
	files := must.OK(filepath.Glob(folder + "/slots-*"))(t)
	require.Len(t, files, 1)
	return files[0]
}

func overwrite(t *testing.T, path string, at int64, data []byte) {
	file := must.OK(os.OpenFile(path, os.O_WRONLY, 0))(t)
	must.OK(file.WriteAt(data, at))(t)
	require.NoError(t, file.Close())
}

// Each damage is refused with the file's path, by everything that reads, and nothing is repaired.
func TestDamageIsRefusedWithItsPath(t *testing.T) {
	for _, row := range []struct {
		name, want string
		damage     func(t *testing.T, folder, slots string)
	}{
		{"a truncated slot file", "slots-.*truncated to 1000",
			func(t *testing.T, _, slots string) { require.NoError(t, os.Truncate(slots, 1000)) }},
		{"an empty slot file", "slots-.*truncated to 0",
			func(t *testing.T, _, slots string) { require.NoError(t, os.Truncate(slots, 0)) }},
		{"a slot file that is too long", "slots-.*bytes instead of",
			func(t *testing.T, _, slots string) { require.NoError(t, os.Truncate(slots, 1<<30)) }},
		{"a slot file that others can write", "slots-.*users other than",
			func(t *testing.T, _, slots string) { require.NoError(t, os.Chmod(slots, 0o666)) }},
		{"a slot file of another user", "slots-.*belongs to user 61001, but the ledger is private",
			func(t *testing.T, _, slots string) {
				asRoot(t)
				require.NoError(t, os.Chown(slots, 61001, -1))
			}},
		{"a live slot of zeros", "slots-.*slot 0, of user",
			func(t *testing.T, _, slots string) { overwrite(t, slots, firstSlot, make([]byte, slotBytes)) }},
		{"a live slot without a checksum", "slots-.*checksum",
			func(t *testing.T, _, slots string) { overwrite(t, slots, firstSlot, []byte{1, 2, 3, 4}) }},
		{"a live slot of no length", "slots-.*length",
			func(t *testing.T, _, slots string) { overwrite(t, slots, firstSlot+4, []byte{255, 255, 255, 255}) }},
		{"a symbolic link as slot file", "slots-x is a symbolic link",
			func(t *testing.T, folder, slots string) { require.NoError(t, os.Symlink(slots, folder+"/slots-x")) }},
		{"a folder as slot file", "slots-x.*not a regular file",
			func(t *testing.T, folder, _ string) { require.NoError(t, os.Mkdir(folder+"/slots-x", 0o700)) }},
		{"a pipe as slot file", "slots-x.*not a regular file",
			func(t *testing.T, folder, _ string) { require.NoError(t, unix.Mkfifo(folder+"/slots-x", 0o600)) }},
		{"a foreign slot file", "slots-x.*does not begin", func(t *testing.T, folder, slots string) {
			require.NoError(t, os.WriteFile(folder+"/slots-x", []byte("something else"), 0o600))
			require.NoError(t, os.Truncate(folder+"/slots-x", 65536+128*slotBytes))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := private(t)
			holder, _ := start(t, "hold", l.Folder(), 10)
			row.damage(t, l.Folder(), slots(t, l.Folder()))
			before := contents(t, l.Folder())
			_, _, err := l.Rows()
			require.Regexp(t, row.want, err)
			must.Fail(t, status.FailedPrecondition, err)
			_, err = l.Claim(request(1, card("A", gib)))
			require.Regexp(t, row.want, err)
			require.Contains(t, err.Error(), l.Folder()+"/slots-")
			findings := l.Check()
			require.Len(t, findings, 1)
			require.Regexp(t, row.want, findings[0])
			require.Equal(t, before, contents(t, l.Folder()))
			kill(t, holder)
		})
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to other users")
	}
}

// contents returns the names and modes of a folder's files, and when they were written, except for the wake file:
// taking the lock writes there.
func contents(t *testing.T, folder string) (found []string) {
	entries := must.OK(os.ReadDir(folder))(t)
	for _, e := range entries {
		info := must.OK(e.Info())(t)
		written := info.ModTime().String()
		if info.Name() == "wake" {
			written = ""
		}
		found = append(found, info.Name()+info.Mode().String()+written)
	}
	return found
}

// What a slot without a lock says does not matter.
func TestAFreeSlotMaySayAnything(t *testing.T) {
	l := private(t)
	holder, _ := start(t, "hold", l.Folder(), 40)
	kill(t, holder)
	path := slots(t, l.Folder())
	overwrite(t, path, firstSlot, []byte(strings.Repeat("garbage ", 100)))
	overwrite(t, path, 1024, []byte(strings.Repeat("\xff", 1024))) // the directory: all slots in use
	require.True(t, granted(t, claim(t, l, request(1, card("A", 40*gib)))))
	sound(t, l)
}

// A live slot with a valid checksum and any contents is read within bounds: it is accepted or refused, and nothing
// crashes.
func TestALiveSlotMayHoldAnything(t *testing.T) {
	l := private(t)
	start(t, "hold", l.Folder(), 10)
	path := slots(t, l.Folder())
	valid := make([]byte, 1024)
	file := must.OK(os.Open(path))(t)
	must.OK(file.ReadAt(valid, firstSlot))(t)
	require.NoError(t, file.Close())
	length := int(binary.LittleEndian.Uint32(valid[4:]))
	refused := 0
	rapid.Check(t, func(t2 *rapid.T) {
		data := append([]byte(nil), valid[:length]...)
		for range rapid.IntRange(1, 4).Draw(t2, "changes") {
			data[rapid.IntRange(4, length-1).Draw(t2, "at")] = rapid.Byte().Draw(t2, "byte")
		}
		if rapid.Bool().Draw(t2, "other length") {
			binary.LittleEndian.PutUint32(data[4:], rapid.Uint32Range(0, 9000).Draw(t2, "length"))
		}
		if n := int(binary.LittleEndian.Uint32(data[4:])); n >= 8 && n <= len(data) {
			binary.LittleEndian.PutUint32(data, crc32.ChecksumIEEE(data[4:n]))
		}
		overwrite(t, path, firstSlot, data)
		claims, processes, err := l.Rows()
		if err != nil {
			refused++
			must.Fail(t, status.FailedPrecondition, err)
			require.Contains(t, err.Error(), path)
			return
		}
		require.Equal(t, 1, len(claims)+len(processes))
		_ = l.Check()
		if c, err := l.Claim(request(1, card("A", gib))); err == nil {
			c.Release()
		}
	})
	require.Positive(t, refused)
}

func TestFoldersThatAreRefused(t *testing.T) {
	for _, row := range []struct {
		name, want string
		make       func(t *testing.T, folder string)
	}{
		{"a symbolic link", "is a symbolic link",
			func(t *testing.T, folder string) { require.NoError(t, os.Symlink(t.TempDir(), folder)) }},
		{"a file", "is not a folder",
			func(t *testing.T, folder string) { require.NoError(t, os.WriteFile(folder, nil, 0o600)) }},
		{"one that others can write", "can change the files", func(t *testing.T, folder string) {
			open(t, folder)
			require.NoError(t, os.Chmod(folder, 0o777))
		}},
		{"one below a folder that others can write", "can replace the ledger's folder",
			func(t *testing.T, folder string) {
				require.NoError(t, os.Chmod(filepath.Dir(folder), 0o777))
				require.NoError(t, os.Mkdir(folder, 0o700))
			}},
		{"one with other files", "not a ledger, and not empty", func(t *testing.T, folder string) {
			require.NoError(t, os.Mkdir(folder, 0o700))
			require.NoError(t, os.WriteFile(folder+"/thesis.txt", nil, 0o600))
		}},
		{"a header that is a symbolic link", "ledger is a symbolic link", func(t *testing.T, folder string) {
			open(t, folder)
			require.NoError(t, os.Rename(folder+"/ledger", folder+"/other"))
			require.NoError(t, os.Symlink("other", folder+"/ledger"))
		}},
		{"a header of another user", "ledger belongs to user 61001, and the folder to user",
			func(t *testing.T, folder string) {
				asRoot(t)
				open(t, folder)
				require.NoError(t, os.Chown(folder+"/ledger", 61001, -1))
			}},
		{"a header that is a pipe", "ledger is not a regular file", func(t *testing.T, folder string) {
			open(t, folder)
			require.NoError(t, os.Remove(folder+"/ledger"))
			require.NoError(t, unix.Mkfifo(folder+"/ledger", 0o600))
		}},
		{"a header that others can write", "can be written by other users", func(t *testing.T, folder string) {
			open(t, folder)
			require.NoError(t, os.Chmod(folder+"/ledger", 0o622))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "ledger")
			row.make(t, folder)
			_, err := ledger.Open(folder, true)
			require.Equal(t, status.FailedPrecondition, status.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, folder)
		})
	}
	must.Fail(t, status.InvalidArgument, must.Err(ledger.Open("relative", true)))
	_, err := ledger.Open(t.TempDir()+"/none/ledger", true)
	require.Equal(t, status.FailedPrecondition, status.CodeOf(err), "%v", err)
}

// Others would use another ledger from then on.
func TestAReplacedLedgerIsNoticed(t *testing.T) {
	l := private(t)
	require.NoError(t, os.Rename(l.Folder(), l.Folder()+"-old"))
	require.ErrorContains(t, must.Err(l.Claim(request(1, card("A", gib)))), "there is no ledger")
	open(t, l.Folder())
	require.ErrorContains(t, must.Err(l.Claim(request(1, card("A", gib)))), "was replaced while it was in use")
}

func TestAnUnusableWakeFileCostsOnlyTime(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 0) },
		"removed":   os.Remove,
	} {
		l := private(t)
		holder := claim(t, l, request(1, card("A", 30*gib)))
		waiter := claim(t, l, request(1, card("A", 20*gib)))
		require.NoError(t, damage(l.Folder()+"/wake"))
		require.Contains(t, l.Check()[0], "truncated or removed", name)
		done := make(chan bool)
		go func() {
			ok, _ := wait(l, waiter, 10*time.Second)
			done <- ok
		}()
		time.Sleep(10 * time.Millisecond)
		holder.Release()
		require.True(t, <-done, name)
	}
}

// A waiter that cannot be woken looks again and again, and sleeps in between.
func TestAWaiterThatCannotBeWokenSleeps(t *testing.T) {
	l := private(t)
	claim(t, l, request(1, card("A", 30*gib)))
	waiter := claim(t, l, request(1, card("A", 20*gib)))
	require.NoError(t, os.Truncate(l.Folder()+"/wake", 0))
	looks := 0
	ledger.BeforeSystemCall = func(string) { looks++ }
	defer func() { ledger.BeforeSystemCall = nil }()
	begun := time.Now()
	require.False(t, must.OK(wait(l, waiter, time.Second))(t))
	require.GreaterOrEqual(t, time.Since(begun), time.Second)
	require.Less(t, looks, 200)
}

// tmpfs mounts a small file system of memory.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("none", folder, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(folder, unix.MNT_DETACH)) })
	return folder
}

func TestALedgerInAFolderThatTakesNone(t *testing.T) {
	_, err := ledger.Open("/proc/x", true)
	require.EqualError(t, err, "cannot create the ledger's folder /proc/x: no folder can be created in /proc. Set "+
		"GPUCONF_LEDGER to another folder")
}

func TestALedgerThatCannotBeCreated(t *testing.T) {
	place := tmpfs(t, "size=8k")
	_, err := ledger.Open(place+"/a/b", true)
	require.EqualError(t, err, "cannot create the ledger's folder "+place+"/a/b: "+place+"/a does not exist. Create "+
		"it, or set GPUCONF_LEDGER to another folder")
	must.Fail(t, status.FailedPrecondition, err)
	_ = os.WriteFile(place+"/filler", make([]byte, 1<<20), 0o600)
	_, err = ledger.Open(place+"/ledger", true)
	require.ErrorContains(t, err, "the disk is full")
	require.NotContains(t, err.Error(), "\n")
}

func TestAFullDisk(t *testing.T) {
	place := tmpfs(t, "size=1536k")
	l := open(t, place+"/ledger")
	filler := place + "/filler"
	require.NoError(t, os.WriteFile(filler, make([]byte, 1<<20), 0o600))
	must.Fail(t, status.Unavailable, must.Err(l.Claim(request(1, card("A", gib)))), "the disk is full")
	sound(t, l)
	require.NoError(t, os.Remove(filler))
	first := claim(t, l, request(1, card("A", 40*gib)))
	require.True(t, granted(t, first))

	// Its space is taken from the start: a full disk no longer matters.
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600)
	for range 100 {
		claim(t, l, request(1, card("B", 1<<20)))
	}
	must.OK(l.Publish(ledger.ID{}, ledger.Text{}))(t).End()
	sound(t, l)
}

// failWrites makes each write of a slot fail until writable is called, as a disk that fails does: by a limit of this
// process on the size of files, which lies before the first slot and behind the directory of the slots.
func failWrites(t *testing.T) (writable func()) {
	signal.Ignore(unix.SIGXFSZ)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: firstSlot, Max: before.Max}))
	writable = sync.OnceFunc(func() {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
		signal.Reset(unix.SIGXFSZ)
	})
	t.Cleanup(writable)
	return writable
}

func TestAWriteThatFailsIsAnError(t *testing.T) {
	l := private(t)
	claim(t, l, request(1, card("A", gib)))
	writable := failWrites(t)
	_, err := l.Claim(request(1, card("A", gib)))
	writable()
	require.Equal(t, status.Unavailable, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "file too large")
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 1)
	sound(t, l)
}

// A grant counts from when it is stored: without that the request waits as before, in its place, and is granted later.
func TestAGrantThatCannotBeWrittenIsNone(t *testing.T) {
	l := private(t)
	holder := claim(t, l, request(2, card("A", 30*gib), card("B", 30*gib)))
	waiter := claim(t, l, request(2, card("A", 20*gib), card("B", 20*gib)))
	holder.Release()
	writable := failWrites(t)
	for range 2 {
		ok, err := look(waiter)
		require.False(t, ok)
		require.Equal(t, status.Unavailable, status.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "file too large")
		require.Empty(t, waiter.Cards())
	}
	writable()
	rows, _ := must.OK2(l.Rows())(t)
	require.Len(t, rows, 1)
	require.Equal(t, ledger.Waiting, rows[0].State)
	require.False(t, granted(t, claim(t, l, request(1, card("A", 30*gib)))), "the older request goes first")
	require.True(t, granted(t, waiter))
	require.Equal(t, []string{"A", "B"}, names(waiter))
	sound(t, l)
}

func TestAReadOnlyDisk(t *testing.T) {
	place := tmpfs(t, "")
	holder := open(t, place+"/ledger")
	kept := must.OK(holder.Claim(request(1, card("A", 30*gib))))(t)
	require.NoError(t, holder.Close())
	// A file that is open for writing keeps the file system writable.
	require.NoError(t, unix.Close(must.OK(kept.Descriptor())(t)))
	require.NoError(t, unix.Mount("none", place, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	l := open(t, place+"/ledger")
	claims, _ := must.OK2(l.Rows())(t)
	require.Empty(t, claims)
	_, err := l.Claim(request(1, card("A", gib)))
	require.Equal(t, status.Unavailable, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "read-only")
	require.ErrorContains(t, must.Err(ledger.Open(place+"/other", true)), "read-only")
}

func TestAnotherProcessWithTheSamePID(t *testing.T) {
	self := ledger.Self()
	require.False(t, self.IsGone())
	require.Positive(t, self.Start)
	self.Start++
	require.True(t, self.IsGone())
	require.True(t, ledger.Process{PID: 1 << 22, Start: 1}.IsGone())
}

// Setting the computer's clock changes nothing, because no code of the ledger reads it.
func TestNoWallClock(t *testing.T) {
	files := must.OK(filepath.Glob("../../../gocore/lease/ledger/*.go"))(t)
	require.NotEmpty(t, files)
	for _, path := range files {
		text := must.OK(os.ReadFile(path))(t)
		require.NotRegexp(t, `time\.(Now|Since|After\(|Tick|NewTimer)|CLOCK_REALTIME|Gettimeofday|Mtim`,
			string(text), path)
	}
}

// The directory of a slot file is part of what is checked.
func TestADirectoryThatContradictsItsSlotsIsFound(t *testing.T) {
	l := private(t)
	holder, _ := start(t, "hold", l.Folder(), 10)
	overwrite(t, slots(t, l.Folder()), firstRow, entry(0, 2, 2, 0)) // says that the slot is a process
	require.Regexp(t, "the directory contradicts .*/slots-.*, slot 0, of user", l.Check()[0])
	kill(t, holder)
	sound(t, l)
}

// Anything at all in the directory, beside a live lease: its card is never leased twice.
func TestADamagedDirectoryNeverOvercommits(t *testing.T) {
	l := private(t)
	start(t, "hold", l.Folder(), 30)
	path := slots(t, l.Folder())
	for name, bytes := range map[string]string{
		"zeros": string(make([]byte, rowBytes)), "ones": strings.Repeat("\xff", rowBytes),
		"text": strings.Repeat("x", 100), "a free slot's": string(entry(1, 0, 0, 0)),
	} {
		overwrite(t, path, firstRow, []byte(bytes))
		fresh := open(t, l.Folder())
		for _, l := range []*ledger.Ledger{l, fresh} {
			_, err := l.Claim(request(1, card("A", 20*gib)))
			require.Equal(t, status.FailedPrecondition, status.CodeOf(err), name)
			require.Regexp(t, path+" is damaged: the checksum of a directory entry is wrong .slot 0, of user", err,
				name)
			require.Regexp(t, "the checksum of a directory entry", l.Check()[0], name)
		}
	}
	overwrite(t, path, firstRow, entry(0, 1, 2, 0))
	require.False(t, granted(t, claim(t, l, request(1, card("A", 20*gib)))))
}

// A process that is stopped while it holds the lock is named; the others neither hang nor go on without it.
func TestALockThatIsHeldIsAnError(t *testing.T) {
	l := private(t)
	file := must.OK(os.Open(l.Folder() + "/ledger"))(t)
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	_, err := l.Claim(request(1, card("A", gib)))
	require.ErrorIs(t, err, ledger.ErrBusy)
	must.Fail(t, status.Unavailable, err)
	require.Regexp(t, `process \d+ holds the lock of .*/ledger`, err)
	must.OK2(l.Rows())(t)
	require.NoError(t, file.Close())
	require.True(t, granted(t, claim(t, l, request(1, card("A", gib)))))
}

// The kernel's list of locks is read in parts, and each release in between hid a lock of the next part.
func TestTheHolderOfALockIsFoundWhileOthersLetGoOfTheirs(t *testing.T) {
	l := private(t)
	file := must.OK(os.Open(l.Folder() + "/ledger"))(t)
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	l.Patience = 0
	_, err := l.Claim(request(1, card("A", gib)))
	require.ErrorIs(t, err, ledger.ErrBusy)

	done, ended := make(chan struct{}), make(chan error, 2)
	for other := range cap(ended) {
		go func() { ended <- takeAndLeaveLocks(filepath.Join(l.Folder(), fmt.Sprint("other", other)), done) }()
	}
	want := fmt.Sprintf("process %d holds", os.Getpid())
	for range 2000 {
		if text := err.Error(); !strings.Contains(text, want) {
			t.Error(text)
			break
		}
	}
	close(done)
	for range cap(ended) {
		require.NoError(t, <-ended)
	}
	require.NoError(t, file.Close())
}

// takeAndLeaveLocks locks 30 files named so, and lets go of them, until done.
func takeAndLeaveLocks(name string, done <-chan struct{}) error {
	for {
		var files []*os.File
		for i := range 30 {
			file, err := os.Create(name + strconv.Itoa(i))
			if err != nil {
				return err
			}
			files = append(files, file)
			if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
				return err
			}
		}
		for _, file := range files {
			if err := file.Close(); err != nil {
				return err
			}
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

// Who finds the lock taken sleeps on the last word of the wake file, and after that on the one before: in front of
// those that were never woken. An unlock changes both.
func TestTheQueueForTheLock(t *testing.T) {
	l := private(t)
	file, err := os.Open(l.Folder() + "/ledger")
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	l.Patience = 0
	var naps []ledger.Nap
	for range 3 {
		_, err = l.Claim(request(1, card("A", gib)))
		var busy *ledger.Busy
		require.ErrorAs(t, err, &busy)
		require.False(t, busy.Nap.Deaf)
		naps = append(naps, busy.Nap)
	}
	require.Equal(t, []uint32{1023, 1022, 1022}, []uint32{naps[0].Word, naps[1].Word, naps[2].Word})
	require.NoError(t, file.Close())
	require.True(t, granted(t, claim(t, l, request(1, card("A", gib)))))
	for _, nap := range naps {
		require.NotEqual(t, nap.Was, word(t, l, nap.Word))
	}
}
