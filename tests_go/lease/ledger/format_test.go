package ledger_test

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

// The format, written down a second time: what a later gpuconf, or a forger, may write.

const (
	firstSlot = 65536
	slotBytes = 8192
	firstRow  = 1024 // of the directory
	rowBytes  = 32
	fileBytes = firstSlot + 128*slotBytes
)

// written is a claim as some writer stores it.
type written struct {
	version, reader uint16
	state           byte
	count           uint32
	pid             uint32
	ticket, granted uint64
	cards           []ledger.Card
	wider           int // bytes that its rows, and its head, have more than those of version 3
	tail            string
	id              [16]byte
}

func thisVersion(state byte, cards ...ledger.Card) written {
	return written{version: 3, reader: 3, state: state, count: 1, pid: uint32(os.Getpid()), ticket: 1, granted: 1,
		cards: cards, id: [16]byte([]byte(rand.Text()[:16]))}
}

func (w written) encode() []byte {
	le, more := binary.LittleEndian, strings.Repeat("\xee", w.wider)
	b := make([]byte, 96)
	for at, half := range map[int]uint16{8: uint16(96 + w.wider), 10: uint16(104 + w.wider), 12: w.version,
		14: w.reader, 20: uint16(len(w.cards)), 26: 6} {
		le.PutUint16(b[at:], half)
	}
	b[16], b[17] = 1, w.state
	le.PutUint32(b[28:], w.count)
	copy(b[32:48], w.id[:])
	le.PutUint32(b[48:], w.pid)
	le.PutUint64(b[80:], w.ticket)
	le.PutUint64(b[88:], w.granted)
	b = append(b, more...)
	for _, c := range w.cards {
		b = append(append(b, c.UUID...), make([]byte, 64-len(c.UUID))...)
		leased := uint64(0)
		if c.Leased {
			leased = 1
		}
		for _, word := range []uint64{c.Bytes, c.Charge, c.Budget, c.Total, leased} {
			b = le.AppendUint64(b, word)
		}
		b = append(b, more...)
	}
	b = append(b, "python"+w.tail...)
	le.PutUint32(b[4:], uint32(len(b)))
	le.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b
}

// entry returns a slot's entry in the directory.
func entry(slot, kind, state byte, looked uint64) []byte {
	b := make([]byte, rowBytes)
	b[0], b[1], b[4] = kind, state, slot+1
	binary.LittleEndian.PutUint64(b[8:], looked)
	sum := crc32.NewIEEE()
	_, _ = sum.Write(append([]byte{slot}, b[:28]...))
	binary.LittleEndian.PutUint32(b[28:], sum.Sum32())
	return b
}

func bootTime() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return uint64(ts.Nano())
}

// place writes a slot file of this user and locks its slots, in order. The file that it returns keeps them alive.
func place(path, line string, size int64, slots ...written) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteAt([]byte(line), 0)
	err = errors.Join(err, file.Truncate(size), file.Chmod(0o644))
	for i, w := range slots {
		at := int64(firstSlot + i*slotBytes)
		_, first := file.WriteAt(w.encode(), at)
		_, second := file.WriteAt(entry(byte(i), 1, w.state, bootTime()), int64(firstRow+i*rowBytes))
		err = errors.Join(err, first, second, unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK,
			&unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}))
	}
	return file, err
}

func placed(t *testing.T, folder, line string, size int64, slots ...written) *os.File {
	file := must.OK(place(fmt.Sprintf("%s/slots-%d-0123456789ab", folder, os.Geteuid()), line, size, slots...))(t)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

const slotsLine = "gpuconf slots version 3 reader 3\n"

func leasedCard(name string, bytes, charge uint64) ledger.Card {
	c := card(name, bytes)
	c.Charge, c.Leased = charge, true
	return c
}

// The test's second description of the format is the first one.
func TestTheFormat(t *testing.T) {
	l := private(t)
	placed(t, l.Folder(), slotsLine, fileBytes, thisVersion(2, leasedCard("A", 30*gib, 30*gib)))
	claims, _ := must.OK2(l.Rows())(t)
	require.Len(t, claims, 1)
	require.Equal(t, "python", claims[0].Text.Command)
	require.Equal(t, []ledger.CardLease{{UUID: "A", Bytes: 30 * gib, Charge: 30 * gib}}, claims[0].Cards)
	sound(t, l)
	require.True(t, granted(t, claim(t, l, request(1, card("A", 10*gib)))))
}

// A claim has as many leased cards as it needs once it is granted, and none before.
func TestAClaimThatContradictsItselfIsDamage(t *testing.T) {
	two, early := thisVersion(2, leasedCard("A", gib, gib)), thisVersion(1, leasedCard("A", gib, gib))
	two.count = 2
	for _, w := range []written{two, early, thisVersion(2, card("A", gib))} {
		l := private(t)
		placed(t, l.Folder(), slotsLine, fileBytes, w)
		require.ErrorContains(t, must.Err2(l.Rows()), "the contents of a slot are invalid")
	}
}

// What a lease takes of a card may be more than what its program may use. Sums are made of the former.
func TestSumsAreMadeOfWhatALeaseTakes(t *testing.T) {
	l := private(t)
	with := card("A", 10*gib)
	with.Charge = 15 * gib
	first, second := claim(t, l, request(1, with)), claim(t, l, request(1, with))
	require.True(t, granted(t, second))
	require.False(t, granted(t, claim(t, l, request(1, with))), "10 of 40 GiB are left")
	require.Equal(t, uint64(10*gib), first.Cards()[0].Bytes)
	require.Equal(t, uint64(15*gib), first.Cards()[0].Charge)
	sound(t, l)
	with.Charge = 5 * gib
	_, err := l.Claim(request(1, with))
	require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)
	with.Bytes, with.Charge = 40*gib, 41*gib
	_, err = l.Claim(request(1, with))
	require.ErrorContains(t, err, "40.00GiB (42949672960 bytes), with 1.00GiB for CUDA contexts, on 1 card can "+
		"never be leased")
}

// A ledger of a later gpuconf, which says that version 3 can read it: longer heads and rows, unknown tags, a longer
// file, an unknown kind of slot. The sums hold, in both directions.
func TestALedgerOfALaterVersionIsUsed(t *testing.T) {
	l := private(t)
	require.NoError(
		t, os.WriteFile(l.Folder()+"/ledger", []byte("gpuconf ledger version 7 reader 3 private since=7\nmore\n"),
			0o600))
	l = open(t, l.Folder())
	lease := thisVersion(2, leasedCard("A", 20*gib, 25*gib))
	lease.version, lease.wider, lease.tail = 7, 24, "\x09\x00\x02\x00ab\xff\xff\x00\x00"
	file := placed(t, l.Folder(), "gpuconf slots version 7 reader 3 more\n", fileBytes+4096, lease)
	claims, processes := must.OK2(l.Rows())(t)
	require.Len(t, claims, 1)
	require.Empty(t, processes)
	require.Equal(t, uint64(20*gib), claims[0].Cards[0].Bytes)
	sound(t, l)
	require.False(t, granted(t, claim(t, l, request(1, card("A", 16*gib)))), "15 of 40 GiB are left")

	// A kind that takes no memory: alive, and not overwritten.
	own := claim(t, l, request(1, card("B", gib)))
	must.OK(file.WriteAt([]byte("of a later version"), firstSlot+5*slotBytes))(t)
	must.OK(file.WriteAt(entry(5, 9, 0, 0), firstRow+5*rowBytes))(t)
	require.NoError(t, unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: firstSlot +
		5*slotBytes, Len: 1}))
	for range 200 {
		require.True(t, granted(t, claim(t, l, request(1, card("B", 1<<20)))))
	}
	text := make([]byte, 18)
	must.OK(file.ReadAt(text, firstSlot+5*slotBytes))(t)
	require.Equal(t, "of a later version", string(text))
	own.Release()
	sound(t, l)
}

// The number of contexts is in the tail: a reader that does not know it skips it, and a forged one is bounded.
func TestTheNumberOfContexts(t *testing.T) {
	l := private(t)
	asked := request(1, card("A", gib))
	asked.Contexts = 3
	claim(t, l, asked)
	for _, row := range []struct {
		tail string
		want int
	}{
		{"\x01\x00\x04\x00\x07\x00\x00\x00", 7},
		{"\x01\x00\x06\x00\x07\x00\x00\x00ab", 7},
		{"\x01\x00\x02\x00\x07\x00", 0},
		{"\x01\x00\x04\x00\xff\xff\xff\xff", ledger.MostContexts},
		{"\x02\x00\x00\x00\x01\x00\x04\x00\x01\x00\x00\x00", 1},
		{"", 0},
	} {
		other := private(t)
		lease := thisVersion(2, leasedCard("A", gib, gib))
		lease.tail = row.tail
		placed(t, other.Folder(), slotsLine, fileBytes, lease)
		claims, _ := must.OK2(other.Rows())(t)
		require.Equal(t, row.want, claims[0].Contexts, "%q", row.tail)
	}
	claims, _, err := l.Rows()
	require.NoError(t, err)
	require.Equal(t, 3, claims[0].Contexts)
	for _, contexts := range []int{-1, ledger.MostContexts + 1} {
		asked.Contexts = contexts
		_, err = l.Claim(asked)
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)
	}
}

// A record may need a later reader. Its cards count nevertheless; what it waits for is unknown, so no request waits for
// it.
func TestARecordThatNeedsALaterVersionCounts(t *testing.T) {
	l := private(t)
	lease, waiter := thisVersion(7, leasedCard("A", 30*gib, 30*gib)), thisVersion(1, card("A", 40*gib))
	lease.version, lease.reader = 4, 4
	waiter.version, waiter.reader, waiter.ticket, waiter.cards[0].Charge = 4, 4, 2, 40*gib
	placed(t, l.Folder(), slotsLine, fileBytes, lease, waiter)
	require.True(t, granted(t, claim(t, l, request(1, card("A", 10*gib)))))
	require.False(t, granted(t, claim(t, l, request(1, card("A", gib)))))
	claims, _ := must.OK2(l.Rows())(t)
	require.Equal(t, []ledger.State{ledger.Granted, ledger.Waiting}, []ledger.State{claims[0].State, claims[1].State})
	sound(t, l)
}

func TestLaterVersionsThatSayThatTheyCannotBeRead(t *testing.T) {
	l := private(t)
	placed(t, l.Folder(), "gpuconf slots version 5 reader 4\n", fileBytes)
	_, err := l.Claim(request(1, card("A", gib)))
	require.Equal(t, status.FailedPrecondition, status.CodeOf(err), "%v", err)
	require.Regexp(
		t, `slots-\d+-0123456789ab has format version 5, which needs a gpuconf that reads version 4; this gpuconf reads version 3`, err)
}

func TestOtherVersionsAndStrangeHeadersAreRefused(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"a later version": {"gpuconf ledger version 6 reader 4 private\n",
			"has format version 6, which needs a gpuconf that reads version 4; this gpuconf reads version 3"},
		"gpuconf 0.2's": {"gpuconf ledger version 2 private\n", "has format version 2, of an older gpuconf; " +
			"this gpuconf uses version 3. Update gpuconf in all programs"},
		"an older one": {"gpuconf ledger version 1 private\n", "has format version 1, of an older gpuconf; " +
			"this gpuconf uses version 3"},
		"another kind":     {"gpuconf ledger version 3 reader 3 public\n", "is damaged, or not a ledger"},
		"no least version": {"gpuconf ledger version 3 private\n", "is damaged, or not a ledger"},
		"a wrong one":      {"gpuconf ledger version 3 reader 4 private\n", "is damaged, or not a ledger"},
		"no kind":          {"gpuconf ledger version 3 reader 3\n", "is damaged, or not a ledger"},
		"a number of 30 digit": {"gpuconf ledger version 333333333333333333333333333333 reader 3 private\n",
			"is damaged, or not a ledger"},
		"a negative number": {"gpuconf ledger version 3 reader -3 private\n", "is damaged, or not a ledger"},
		"no end":            {"gpuconf ledger version 3 reader 3 private", "is damaged, or not a ledger"},
		"cut off":           {"gpuconf led", "is damaged, or not a ledger"},
		"empty":             {"", "is damaged, or not a ledger"},
		"something else":    {strings.Repeat("x", 10_000), "is damaged, or not a ledger"},
	} {
		folder := private(t).Folder()
		require.NoError(t, os.WriteFile(folder+"/ledger", []byte(row.text), 0o600))
		_, err := ledger.Open(folder, true)
		require.Equal(t, status.FailedPrecondition, status.CodeOf(err), name)
		require.ErrorContains(t, err, folder+"/ledger "+row.want, name)
	}
}

// What gpuconf 0.2 says of this version's ledgers: it looks for a version after these words.
func TestGpuconf02SaysWhichVersionItMet(t *testing.T) {
	text := must.OK(os.ReadFile(private(t).Folder() + "/ledger"))(t)
	var number int
	must.OK(fmt.Sscanf(string(text), "gpuconf ledger version %d ", &number))(t)
	require.Equal(t, 3, number)
}
