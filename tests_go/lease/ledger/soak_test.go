package ledger_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/lease/ledger"
)

const (
	soakProcesses = 64
	soakCards     = 4
)

// The classes of the soak: few, so that many requests are of one class.
func soakRequest(random *rand.Rand) ledger.Request {
	sizes := []uint64{1, 4, 10, 30, 40}
	size := sizes[random.IntN(len(sizes))] * gib
	r := ledger.Request{Count: 1}
	switch random.IntN(4) {
	case 0: // one card
		r.Cards = []ledger.Card{card(soakCard(random.IntN(soakCards)), size)}
	case 1: // all cards
		r.Count = soakCards
		fallthrough
	default: // any card
		for i := range soakCards {
			r.Cards = append(r.Cards, card(soakCard(i), size))
		}
	}
	r.Policy = ledger.Policy(random.IntN(2))
	// its class
	r.Text.Job = fmt.Sprintf("%d of %s to %s, %d GiB", r.Count, r.Cards[0].UUID, r.Cards[len(r.Cards)-1].UUID, size/gib)
	return r
}

func soakCard(i int) string { return string(rune('A' + i)) }

// A witness of overcommitment that knows nothing of the ledger: a file for each card with a byte for each GiB. Who
// leases a number of GiB locks as many bytes; the kernel frees them with the process.
type witness struct{ files []*os.File }

func openWitness(folder string) (w witness, err error) {
	for i := range soakCards {
		file, err := os.OpenFile(filepath.Join(folder, "witness-"+soakCard(i)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return w, err
		}
		w.files = append(w.files, file)
	}
	return w, nil
}

// take locks the bytes of a claim. At the end of a process, the kernel may drop the claim a moment before the witness.
func (w witness) take(cards []ledger.CardLease) error {
	for _, c := range cards {
		file := w.files[c.UUID[0]-'A']
		need := int(c.Bytes / gib)
		for deadline := time.Now().Add(5 * time.Second); need > 0; {
			for at := range int64(40) {
				lock := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
				free := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
				if unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &free) == nil && free.Type == unix.F_UNLCK &&
					!w.own(c.UUID, at) &&
					unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock) == nil {
					owned[c.UUID[0]-'A'][at] = true
					if need--; need == 0 {
						break
					}
				}
			}
			if need > 0 && time.Now().After(deadline) {
				return fmt.Errorf("card %s is overcommitted: %d GiB of a lease of %d are not there", c.UUID, need,
					c.Bytes/gib)
			}
			if need > 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	return nil
}

var owned [soakCards][40]bool // an open file's own locks do not conflict with it

func (witness) own(uuid string, at int64) bool { return owned[uuid[0]-'A'][at] }

func (w witness) release() {
	for _, file := range w.files {
		_ = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Len: 40})
	}
	owned = [soakCards][40]bool{}
}

func init() {
	// soak FOLDER SEED: leases and waits at random, until it is killed, ends, or finds something wrong. It prints its
	// longest wait.
	roles["soak"] = func(arguments []string) error {
		seed, err := strconv.ParseUint(arguments[1], 10, 64)
		if err != nil {
			return err
		}
		random := rand.New(rand.NewPCG(seed, 1))
		w, err := openWitness(filepath.Dir(arguments[0])) // before the ledger: the kernel closes files in this order
		if err != nil {
			return err
		}
		l, err := ledger.Open(arguments[0], true)
		if err != nil {
			return err
		}
		longest := time.Duration(0)
		for range random.IntN(30) + 1 {
			begun := time.Now()
			ended, err := soakOnce(l, w, random)
			if err != nil {
				return err
			}
			longest = max(longest, time.Since(begun))
			if ended {
				break
			}
		}
		fmt.Println("waited", longest.Milliseconds())
		return nil
	}
}

// soakOnce makes one claim, and reports whether the process shall end with it.
func soakOnce(l *ledger.Ledger, w witness, random *rand.Rand) (ended bool, err error) {
	c, err := soakClaim(l, soakRequest(random))
	if err != nil {
		return false, err
	}
	patience := time.Duration(random.IntN(3)) * 200 * time.Millisecond // 0: no limit
	for begun := time.Now(); ; {
		granted, err := wait(l, c, 100*time.Millisecond)
		if err != nil && !errors.Is(err, ledger.ErrBusy) {
			return false, err
		}
		if granted {
			break
		}
		if patience > 0 && time.Since(begun) > patience {
			c.Release() // withdrawn
			return false, nil
		}
	}
	if err := w.take(c.Cards()); err != nil {
		return false, err
	}
	time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
	switch random.IntN(20) {
	case 0:
		return true, nil // ends without a release
	case 1:
		return true, soakInherit(c, w)
	}
	w.release()
	c.Release()
	return false, nil
}

func soakClaim(l *ledger.Ledger, r ledger.Request) (*ledger.Claim, error) {
	for range 100 {
		c, err := l.Claim(r)
		if !errors.Is(err, ledger.ErrBusy) {
			return c, err
		}
	}
	return nil, errors.New("the ledger was locked for 10 seconds")
}

// soakInherit leaves the claim to a child that outlives this process.
func soakInherit(c *ledger.Claim, w witness) error {
	fd, err := c.Descriptor()
	if err != nil {
		return err
	}
	child := exec.Command("sleep", "0.02")
	for _, file := range w.files {
		child.ExtraFiles = append(child.ExtraFiles, file)
	}
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	child.ExtraFiles = append(child.ExtraFiles, os.NewFile(uintptr(copied), "claim"))
	return child.Start()
}

// soak runs processes that lease, wait and die at random.
type soak struct {
	t      *testing.T
	folder string
	end    time.Time

	mu      sync.Mutex
	running []*exec.Cmd
	started int
	killed  int
	longest int64 // milliseconds
	wrong   []string
}

// TestSoak runs 64 processes for SOAK_LEDGER seconds (20).
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("the soak takes 20 seconds")
	}
	seconds := 20
	if text := os.Getenv("SOAK_LEDGER"); text != "" {
		var err error
		seconds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	s := &soak{t: t, folder: t.TempDir() + "/ledger", end: time.Now().Add(time.Duration(seconds) * time.Second)}
	open(t, s.folder)
	var all sync.WaitGroup
	for range soakProcesses {
		all.Go(s.worker)
	}
	all.Go(s.killer)
	checked := s.watch()
	all.Wait()
	t.Logf("%d processes, %d killed, %d checks, longest wait %d ms", s.started, s.killed, checked, s.longest)
	require.Empty(t, s.wrong)
	require.Less(t, s.longest, int64(30_000), "milliseconds: starvation")
	l := open(t, s.folder)
	require.Eventually(t, func() bool { // children of the last ones
		claims, _, err := l.Rows()
		return err == nil && len(claims) == 0
	}, 10*time.Second, 10*time.Millisecond)
	sound(t, l)
}

// worker keeps one process running.
func (s *soak) worker() {
	for time.Now().Before(s.end) && !s.failed() {
		s.mu.Lock()
		s.started++
		command := role("soak", s.folder, s.started)
		var output bytes.Buffer
		command.Stdout, command.Stderr = &output, &output
		command.WaitDelay = time.Second
		if err := command.Start(); err != nil {
			s.wrong = append(s.wrong, err.Error())
			s.mu.Unlock()
			return
		}
		s.running = append(s.running, command)
		s.mu.Unlock()
		err := command.Wait()
		s.note(command, output.String(), err)
	}
}

func (s *soak) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wrong) > 0
}

func (s *soak) note(command *exec.Cmd, output string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = slices.DeleteFunc(s.running, func(c *exec.Cmd) bool { return c == command })
	for scanner := bufio.NewScanner(strings.NewReader(output)); scanner.Scan(); {
		var wait int64
		if n, _ := fmt.Sscanf(scanner.Text(), "waited %d", &wait); n == 1 {
			s.longest = max(s.longest, wait)
		} else {
			s.wrong = append(s.wrong, output)
			return
		}
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		s.killed++
	} else if err != nil {
		s.wrong = append(s.wrong, err.Error()+": "+output)
	}
}

// killer kills processes at random times, which is at any instruction.
func (s *soak) killer() {
	for time.Now().Before(s.end) && !s.failed() {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		s.mu.Lock()
		if len(s.running) > 0 {
			_ = s.running[rand.IntN(len(s.running))].Process.Kill()
		}
		s.mu.Unlock()
	}
}

// watch checks the ledger again and again.
func (s *soak) watch() (checks int) {
	l := open(s.t, s.folder)
	for ; time.Now().Before(s.end.Add(-500*time.Millisecond)) && !s.failed(); checks++ {
		var wrong []string
		for _, finding := range l.Check() {
			if !strings.Contains(finding, "the ledger is locked") {
				wrong = append(wrong, finding)
			}
		}
		wrong = append(wrong, s.passed(l)...)
		s.mu.Lock()
		s.wrong = append(s.wrong, wrong...)
		s.mu.Unlock()
		time.Sleep(2 * time.Millisecond)
	}
	return checks
}

// passed returns claims that passed an older one of their class: granted, while the older one waits, then and still
// after that.
func (s *soak) passed(l *ledger.Ledger) (found []string) {
	claims, _, err := l.Rows()
	if err != nil {
		return []string{err.Error()}
	}
	suspects := map[ledger.ID]string{}
	for _, young := range claims {
		for _, old := range claims {
			overtaken := young.State == ledger.Granted && old.State == ledger.Waiting && old.Ticket < young.Ticket
			if overtaken && young.Text.Job == old.Text.Job {
				suspects[old.ID] = fmt.Sprintf("claim %s (ticket %d) was granted before %s (ticket %d)", young.ID,
					young.Ticket, old.ID, old.Ticket)
			}
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	again, _, err := l.Rows()
	if err != nil {
		return []string{err.Error()}
	}
	for _, c := range again {
		if text := suspects[c.ID]; text != "" && c.State == ledger.Waiting {
			found = append(found, text)
		}
	}
	return found
}
