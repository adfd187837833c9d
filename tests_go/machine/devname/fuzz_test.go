package devname_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/machine/devname"
	"gpuconf/tests_go/attempt"
)

func addGolden(f *testing.F) {
	for _, row := range golden {
		f.Add(row.text)
	}
}

// FuzzParseSpec: P never panics, and its result, written and read again, is unchanged (invariant 2).
func FuzzParseSpec(f *testing.F) {
	addGolden(f)
	f.Fuzz(checkSpecStable)
}

// FuzzParseFullName: F never panics, and is stable where it can be (invariant 3).
func FuzzParseFullName(f *testing.F) {
	addGolden(f)
	f.Fuzz(checkFullNameStable)
}

// FuzzParseLocalName: L never panics, and accepts nothing that F accepts.
func FuzzParseLocalName(f *testing.F) {
	addGolden(f)
	f.Fuzz(checkLocalName)
}

// FuzzEnterScope: a current name, read again, is unchanged and complete (invariant 5).
func FuzzEnterScope(f *testing.F) {
	for _, row := range golden {
		f.Add(row.text, "GPU:1")
	}
	f.Fuzz(checkScope)
}

func checkSpecStable(t *testing.T, s string) {
	first, err := devname.ParseSpec(s)
	if err != nil {
		require.Equal(t, devname.Spec{}, first)
		return
	}
	again := attempt.Get(devname.ParseSpec(first.String()))
	require.Equal(t, first, again)
}

func checkFullNameStable(t *testing.T, s string) {
	first, ok := devname.ParseFullName(s)
	if !ok {
		require.Equal(t, devname.Name{}, first)
		return
	}
	if first.Replica < 0 || first.Task < 0 || first.ID < 0 || first.HasID && !first.HasType {
		return
	}
	again, ok := devname.ParseFullName(first.String())
	require.True(t, ok)
	require.Equal(t, first, again)
	require.True(t, devname.Compatible(first, again))
}

func checkLocalName(t *testing.T, s string) {
	name, ok := devname.ParseLocalName(s)
	if !ok {
		require.Equal(t, devname.Name{}, name)
		return
	}
	_, ok = devname.ParseFullName(s)
	require.False(t, ok)
	if name.ID >= 0 {
		again, ok := devname.ParseLocalName(strings.TrimPrefix(name.String(), "/device:"))
		require.True(t, ok)
		require.Equal(t, name, again)
	}
}

func checkScope(t *testing.T, outer, inner string) {
	name := ""
	for _, arg := range []string{outer, inner} {
		next, err := devname.EnterScope(name, &arg)
		if err != nil {
			continue
		}
		require.Equal(t, next, attempt.Get(canonicalName(next)))
		for _, part := range []string{"/job:", "/replica:", "/task:", "/device:"} {
			require.Contains(t, next, part)
		}
		name = next
	}
}

// anyName draws texts that are almost device names, so that properties reach the parsers' details.
func anyName() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{
		"/", ":", "*", "job", "replica", "task", "device", "cpu", "GPU", "Gpu", "tpu", "worker", "a_1", "0", "1", "007",
		"-1", "+2", " ",
		"1_0", "4294967296", "18446744073709551616", "/job:", "/replica:", "/task:", "/device:", "/gpu:", "/cpu:",
		"\u0663", "x",
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
	})
}

func TestParsersAreStable(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anyName().Draw(r, "name")
		checkSpecStable(t, s)
		checkFullNameStable(t, s)
		checkLocalName(t, s)
		checkScope(t, s, anyName().Draw(r, "inner"))
	})
}
