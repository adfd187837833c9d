package ledger_test

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/tests_go/must"
)

// place of the file that the targets write.
const fuzzed = "/slots-1-0123456789ab"

func opened(f *testing.F) *ledger.Ledger { return must.OK(ledger.Open(f.TempDir()+"/ledger", true))(f) }

// FuzzHeader: a header of any text is accepted, or refused with its path and a reason.
func FuzzHeader(f *testing.F) {
	folder := opened(f).Folder()
	for _, text := range []string{"gpuconf ledger version 3 reader 3 private\n",
		"gpuconf ledger version 9 reader 3 shared more\nand more\n", "gpuconf ledger version 2 private\n",
		"gpuconf ledger version 9 reader 4 private\n", "gpuconf ledger", "", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, os.WriteFile(folder+"/ledger", []byte(text), 0o600))
		l, err := ledger.Open(folder, true)
		if err != nil {
			must.Fail(t, status.FailedPrecondition, err)
			require.True(t, strings.HasPrefix(err.Error(), folder+"/ledger "), err)
			return
		}
		require.True(t, strings.HasPrefix(text, "gpuconf ledger version "))
		require.NoError(t, l.Close())
	})
}

// FuzzSlotsLine: the same of the first line of a slot file.
func FuzzSlotsLine(f *testing.F) {
	l := opened(f)
	file := must.OK(place(l.Folder()+fuzzed, slotsLine, fileBytes))(f)
	for _, text := range []string{slotsLine, "gpuconf slots version 9 reader 3 more\n",
		"gpuconf slots version 9 reader 4\n", "gpuconf slots version 2\n", "", "\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := make([]byte, firstRow)
		copy(line, text)
		must.OK(file.WriteAt(line, 0))(t)
		l := must.OK(ledger.Open(l.Folder(), false))(t)
		defer func() { require.NoError(t, l.Close()) }()
		if _, _, err := l.Rows(); err != nil {
			must.Fail(t, status.FailedPrecondition, err)
			require.True(t, strings.HasPrefix(err.Error(), l.Folder()+fuzzed+" "), err)
			return
		}
		require.True(t, strings.HasPrefix(text, "gpuconf slots version "))
	})
}

// FuzzRecord: a live record of any bytes with a valid checksum (head, rows, texts and tail) is refused with its path,
// or counts: whatever it leases of card A is not leased again.
func FuzzRecord(f *testing.F) {
	l := opened(f)
	file := must.OK(place(l.Folder()+fuzzed, slotsLine, fileBytes, thisVersion(2, leasedCard("A", gib, gib))))(f)
	later, waiting := thisVersion(2, leasedCard("A", 30*gib, 31*gib)), thisVersion(1, card("A", gib), card("B", gib))
	later.version, later.reader, later.wider, later.tail = 9, 4, 8, "\x01\x00\x02\x00ab\x02\x00\x00\x00"
	waiting.cards[0].Charge, waiting.cards[1].Charge = gib, gib
	for _, w := range []written{thisVersion(2, leasedCard("A", 30*gib, 40*gib)), later, waiting} {
		f.Add(w.encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 96 || len(data) > slotBytes {
			return
		}
		binary.LittleEndian.PutUint32(data[4:], uint32(len(data)))
		binary.LittleEndian.PutUint32(data, crc32.ChecksumIEEE(data[4:]))
		must.OK(file.WriteAt(data, firstSlot))(t)
		must.OK(file.WriteAt(entry(0, 1, data[17], bootTime()), firstRow))(t)
		l, err := ledger.Open(l.Folder(), false) // one that does not know the slot
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		c, err := l.Claim(request(1, card("A", 20*gib)))
		if err != nil {
			must.Fail(t, status.FailedPrecondition, err)
			require.True(t, strings.HasPrefix(err.Error(), l.Folder()+fuzzed+" is damaged"), err)
			return
		}
		defer c.Release()
		claims, _ := must.OK2(l.Rows())(t)
		taken := uint64(0)
		for _, row := range claims {
			for _, held := range row.Cards {
				if held.UUID == "A" && row.State == ledger.Granted && row.ID != c.ID() {
					require.GreaterOrEqual(t, held.Charge, held.Bytes)
					taken += held.Charge
				}
			}
		}
		if taken > 20*gib {
			require.Empty(t, c.Cards())
		}
		_ = l.Check()
	})
}

// FuzzDirectory: with any bytes in the directory, beside a live lease of 30 GiB, no claim of 20 of 40 GiB is granted.
func FuzzDirectory(f *testing.F) {
	l := opened(f)
	file := must.OK(place(l.Folder()+fuzzed, slotsLine, fileBytes, thisVersion(2, leasedCard("A", 30*gib, 30*gib))))(f)
	good := make([]byte, 128*rowBytes)
	must.OK(file.ReadAt(good, firstRow))(f)
	f.Add(good, uint16(0))
	f.Add([]byte{}, uint16(0))
	f.Add([]byte{0, 0, 0, 0}, uint16(28))
	f.Add([]byte(strings.Repeat("\xff", 100)), uint16(10))
	f.Fuzz(func(t *testing.T, bytes []byte, at uint16) {
		must.OK(file.WriteAt(good, firstRow))(t)
		at %= uint16(len(good))
		must.OK(file.WriteAt(bytes[:min(len(bytes), len(good)-int(at))], firstRow+int64(at)))(t)
		l := must.OK(ledger.Open(l.Folder(), false))(t)
		defer func() { require.NoError(t, l.Close()) }()
		c, err := l.Claim(request(1, card("A", 20*gib)))
		if err == nil {
			require.Empty(t, c.Cards())
			c.Release()
			return
		}
		must.Fail(t, status.FailedPrecondition, err)
		require.True(t, strings.HasPrefix(err.Error(), l.Folder()+fuzzed+" is damaged"), err)
	})
}
