package ledger_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

func init() {
	// turns FOLDER COUNT: leases and releases the whole of card A so many times.
	roles["turns"] = func(arguments []string) error {
		l, err := ledger.Open(arguments[0], true)
		if err != nil {
			return err
		}
		l.Patience = time.Minute
		count, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		for range count {
			c, err := l.Claim(request(1, card("A", 40*gib)))
			if err != nil {
				return err
			}
			if ok, err := wait(l, c, time.Minute); !ok || err != nil {
				return fmt.Errorf("not granted: %w", err)
			}
			c.Release()
		}
		return nil
	}
}

func takeTurns(t *testing.T, l *ledger.Ledger, processes, count int) {
	started := make([]*exec.Cmd, processes)
	for i := range started {
		started[i] = role("turns", l.Folder(), count)
		require.NoError(t, started[i].Start())
	}
	for _, command := range started {
		require.NoError(t, command.Wait())
	}
	sound(t, l)
}

// Many processes that want the lock at once all get it, again and again.
func TestAContendedLockIsPassedOn(t *testing.T) {
	t.Parallel()
	takeTurns(t, private(t), 20, 20)
}

// In a shared ledger anybody may write the words on which processes sleep, wake them, or keep a wake from them. That
// costs time only.
func TestSpoiledWakeWordsOnlyCostTime(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		spoil func(file *os.File) error
	}{
		{"random", func(file *os.File) error {
			words := make([]byte, 4096)
			_, _ = rand.Read(words)
			return must.Err(file.WriteAt(words, 0))
		}},
		{"always somebody who tries", func(file *os.File) error {
			var at unix.Timespec
			_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &at)
			us := uint32(at.Nano()/1000) | 1
			return must.Err(file.WriteAt([]byte{byte(us), byte(us >> 8), byte(us >> 16), byte(us >> 24)}, 4096-12))
		}},
		{"truncated", func(file *os.File) error { return file.Truncate(0) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := private(t)
			file := must.OK(os.OpenFile(l.Folder()+"/wake", os.O_RDWR, 0))(t)
			defer func() { _ = file.Close() }()
			end, ended := make(chan struct{}), make(chan struct{})
			go func() {
				for {
					select {
					case <-end:
						close(ended)
						return
					case <-time.After(100 * time.Microsecond):
						_ = row.spoil(file)
					}
				}
			}()
			defer func() { <-ended }()
			defer close(end)
			started := role("turns", l.Folder(), 20)
			require.NoError(t, started.Start())
			other := role("turns", l.Folder(), 20)
			require.NoError(t, other.Start())
			require.NoError(t, started.Wait())
			require.NoError(t, other.Wait())
		})
	}
}

// A process that was woken, and is stopped or killed before it takes the lock, delays the others by a moment only.
func TestAWaiterThatDiesDoesNotKeepTheLock(t *testing.T) {
	t.Parallel()
	l := private(t)
	file := must.OK(os.Open(l.Folder() + "/ledger"))(t)
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	stopped, killed, others := role("turns", l.Folder(), 1), role("turns", l.Folder(), 1), role("turns", l.Folder(), 5)
	for _, command := range []*exec.Cmd{stopped, killed, others} {
		require.NoError(t, command.Start())
		sleeping(t, command.Process)
	}
	stop(t, stopped.Process)
	require.NoError(t, file.Close()) // no bell rings, as after SIGKILL
	kill(t, killed)
	require.NoError(t, others.Wait())
	require.NoError(t, stopped.Process.Signal(syscall.SIGCONT))
	require.NoError(t, stopped.Wait())
	sound(t, l)
}

// sleeping waits until a process sleeps on a word of the wake file: its mapping is there.
func sleeping(t *testing.T, p *os.Process) {
	require.Eventually(t, func() bool {
		maps := must.OK(os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.Pid)))(t)
		return strings.Contains(string(maps), "/wake\n")
	}, 10*time.Second, time.Millisecond)
}
