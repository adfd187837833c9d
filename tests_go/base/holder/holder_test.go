package holder_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/tests_go/must"
)

func TestAnIDIsALibraryAndATag(t *testing.T) {
	tag := must.OK(holder.Intern("optimizer"))(t)
	for library, name := range map[holder.Library]string{
		holder.C: "c", holder.Gpuconf: "gpuconf", holder.Torch: "torch", holder.CuPy: "cupy", holder.Numba: "numba",
	} {
		for _, tag := range []holder.Tag{0, tag, holder.Other} {
			id := holder.Of(library, tag)
			require.Equal(t, library, id.Library())
			require.Equal(t, tag, id.Tag())
			require.Equal(t, name, id.Library().String())
		}
	}
	require.Equal(t, "optimizer", tag.String())
	require.Equal(t, "", holder.Tag(0).String())
	require.Equal(t, holder.ID(0), holder.Of(holder.C, 0))
}

func TestNamesKeepTheirNumbers(t *testing.T) {
	var wait sync.WaitGroup
	numbers := make([][50]holder.Tag, 8)
	for worker := range numbers {
		wait.Go(func() {
			for i := range numbers[worker] {
				tag, err := holder.Intern(fmt.Sprint("shared ", i))
				if err != nil || tag.String() != fmt.Sprint("shared ", i) {
					t.Errorf("%v: %v, %v", i, tag, err)
				}
				numbers[worker][i] = tag
			}
		})
	}
	wait.Wait()
	for _, other := range numbers[1:] {
		require.Equal(t, numbers[0], other)
	}
}

func TestNamesThatAreInvalid(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "must not be empty",
		strings.Repeat("x", 201): "at most 200 bytes",
		"a\nb":                   "control characters",
		"a\x00b":                 "control characters",
		"a\xffb":                 "valid UTF-8",
	} {
		must.Fail(t, status.InvalidArgument, must.Err(holder.Intern(name)), want)
	}
	for _, name := range []string{" ", "(untagged)", strings.Repeat("é", 100), "a,b\"c"} {
		require.Equal(t, name, must.OK(holder.Intern(name))(t).String())
	}
}

// It fills the table for the whole process, so it must be the last test here.
func TestTooManyNamesShareATag(t *testing.T) {
	seen := map[holder.Tag]bool{}
	for i := range holder.MostTags + 10 {
		tag := must.OK(holder.Intern(fmt.Sprint("step ", i)))(t)
		if tag != holder.Other {
			require.False(t, seen[tag])
			seen[tag] = true
			require.Equal(t, fmt.Sprint("step ", i), tag.String())
		}
	}
	late := must.OK(holder.Intern("a late name"))(t)
	require.Equal(t, holder.Other, late)
	require.Equal(t, "(other)", late.String())
	require.Equal(t, "step 0", must.OK(holder.Intern("step 0"))(t).String())
	require.Equal(t, holder.Other, must.OK(holder.Intern("(other)"))(t))
}
