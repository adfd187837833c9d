package ledger_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

// roleVariable makes this binary one of the programs that the tests start: "role argument...".
const roleVariable = "GPUCONF_LEDGER_TEST"

var roles = map[string]func(arguments []string) error{}

// TestMain lets this binary be a process that uses a ledger.
func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(roleVariable)); len(words) > 0 {
		if err := roles[words[0]](words[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// role returns the command of a process.
func role(words ...any) *exec.Cmd {
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), roleVariable+"="+strings.TrimSpace(fmt.Sprintln(words...)))
	return command
}

// start starts a process and waits for its first line.
func start(t *testing.T, words ...any) (command *exec.Cmd, line string) {
	command = role(words...)
	stdin := must.OK(command.StdinPipe())(t)
	stdout := must.OK(command.StdoutPipe())(t)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return command, firstLine(t, stdout.Read)
}

func firstLine(t *testing.T, read func([]byte) (int, error)) string {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := read(one)
		if n == 0 || err != nil || one[0] == '\n' {
			return string(line)
		}
		line = append(line, one[0])
	}
}

// kill ends a process by SIGKILL and waits for it.
func kill(t *testing.T, command *exec.Cmd) {
	require.NoError(t, command.Process.Signal(syscall.SIGKILL))
	_ = command.Wait()
}

const gib = 1 << 30

// card returns a card of 40 GiB.
func card(name string, bytes uint64) ledger.Card {
	return ledger.Card{UUID: name, Bytes: bytes, Total: 40 * gib, Budget: 40 * gib}
}

func request(count int, cards ...ledger.Card) ledger.Request {
	return ledger.Request{Cards: cards, Count: count}
}

func open(t *testing.T, folder string) *ledger.Ledger {
	l := must.OK(ledger.Open(folder, true))(t)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func private(t *testing.T) *ledger.Ledger { return open(t, t.TempDir()+"/ledger") }

func claim(t *testing.T, l *ledger.Ledger, r ledger.Request) *ledger.Claim {
	c := must.OK(l.Claim(r))(t)
	t.Cleanup(c.Release)
	return c
}

func granted(t *testing.T, c *ledger.Claim) bool { return must.OK(look(c))(t) }

func look(c *ledger.Claim) (granted bool, err error) {
	granted, _, err = c.Look(nil)
	return granted, err
}

// wait waits for the grant as programs do: it looks, and sleeps on the word that the nap names.
func wait(l *ledger.Ledger, c *ledger.Claim, most time.Duration) (granted bool, err error) {
	for deadline := time.Now().Add(most); ; {
		granted, nap, err := c.Look(nil)
		left := min(time.Until(deadline), nap.Most)
		if granted || err != nil || time.Until(deadline) <= 0 {
			return granted, err
		}
		ts, words, failed := unix.NsecToTimespec(int64(left)), l.Words(), unix.Errno(0)
		if words != 0 && !nap.Deaf {
			_, _, failed = unix.Syscall6(unix.SYS_FUTEX, words+4*uintptr(nap.Word), 0, uintptr(nap.Was),
				uintptr(unsafe.Pointer(&ts)), 0, 0)
		}
		if words == 0 || nap.Deaf || failed == unix.EFAULT {
			time.Sleep(min(left, 20*time.Millisecond))
		}
	}
}

func names(c *ledger.Claim) (found []string) {
	for _, card := range c.Cards() {
		found = append(found, card.UUID)
	}
	return found
}

func sound(t *testing.T, l *ledger.Ledger) { require.Empty(t, l.Check()) }

func init() {
	// hold FOLDER GIB...: claims bytes of card A, B, ... and holds them until its standard input ends.
	roles["hold"] = func(arguments []string) error {
		l, err := ledger.Open(arguments[0], true)
		if err != nil {
			return err
		}
		var cards []ledger.Card
		for i, text := range arguments[1:] {
			size, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			cards = append(cards, card(string(rune('A'+i)), uint64(size)*gib))
		}
		c, err := l.Claim(request(len(cards), cards...))
		if err != nil {
			return err
		}
		ok, err := wait(l, c, 10*time.Second)
		if err != nil {
			return err
		}
		fmt.Println("granted:", ok)
		_, _ = os.Stdin.Read(make([]byte, 1))
		return nil
	}
}
