//go:build cgo

package process_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind/process"
	"gpuconf/tests_go/must"
)

// shared returns a file as Go has it, whose original Python has closed.
func shared(t *testing.T, original *os.File) *process.File {
	file := must.OK(process.ShareFile(int64(original.Fd())))(t)
	t.Cleanup(file.Close)
	require.NoError(t, original.Close())
	return file
}

func anything([]byte) error { return nil }

func TestAFileIsReadToItsEnd(t *testing.T) {
	for _, size := range []int{1, 1 << 20, 3<<20 + 7} {
		path, text := t.TempDir()+"/file", strings.Repeat("0123456789abcdef", size/16+1)[:size]
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		original := must.OK(os.Open(path))(t)
		asked := 0
		data, err := shared(t, original).ReadAll(context.Background(), func(first []byte) error {
			asked++
			require.True(t, strings.HasPrefix(text, string(first)))
			require.NotEmpty(t, first)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		require.Equal(t, 1, asked)
	}
}

func TestAnEmptyFileIsRead(t *testing.T) {
	original := must.OK(os.Create(t.TempDir() + "/file"))(t)
	require.Empty(t, must.OK(shared(t, original).ReadAll(context.Background(), anything))(t))
}

// What comes through a pipe comes in parts.
func TestAPipeIsReadToItsEnd(t *testing.T) {
	read, write := must.OK2(os.Pipe())(t)
	file, want := shared(t, read), strings.Repeat("0123456789", 300_000)
	wrote := make(chan error)
	go func() {
		_, err := write.WriteString(want)
		wrote <- errors.Join(err, write.Close())
	}()
	data := must.OK(file.ReadAll(context.Background(), anything))(t)
	require.NoError(t, <-wrote)
	require.Equal(t, want, string(data))
}

// A file of another kind is not read whole: this one has no end.
func TestAFileThatIsNotAccepted(t *testing.T) {
	original := must.OK(os.Open("/dev/zero"))(t)
	wrong := errors.New("not a recording")
	_, err := shared(t, original).ReadAll(context.Background(), func(first []byte) error {
		require.False(t, process.IsText(first))
		return wrong
	})
	require.Equal(t, wrong, err)
}

// Its writer may wait for the reader.
func TestAPipeThatIsNotAccepted(t *testing.T) {
	wrong := errors.New("not a recording")
	for _, parts := range [][]string{{"a\x00"}, {"a", "b", "\x00"}, {strings.Repeat("a", 4095), "\x00"}} {
		read, write := must.OK2(os.Pipe())(t)
		file, next := shared(t, read), 0
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		must.OK(write.WriteString(parts[next]))(t)
		_, err := file.ReadAll(ctx, func(first []byte) error {
			require.Equal(t, strings.Join(parts[:next+1], ""), string(first))
			if !process.IsText(first) {
				return wrong
			}
			next++
			return must.Err(write.WriteString(parts[next]))
		})
		require.Equal(t, wrong, err)
		cancel()
		require.NoError(t, write.Close())
	}
}

// A pipe may have nothing to read for hours.
func TestReadingEndsWithItsContext(t *testing.T) {
	read, write := must.OK2(os.Pipe())(t)
	defer func() { _ = write.Close() }()
	file := shared(t, read)
	must.OK(write.WriteString("the beginning"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := file.ReadAll(ctx, func(first []byte) error {
		require.Equal(t, "the beginning", string(first))
		cancel()
		return nil
	})
	require.Equal(t, context.Canceled, err)
}

func TestWhatCannotBeRead(t *testing.T) {
	_, err := process.ShareFile(1 << 30)
	must.Fail(t, status.InvalidArgument, err, "file descriptor 1073741824: bad file descriptor")
	folder := must.OK(os.Open(t.TempDir()))(t)
	must.Fail(t, status.Unavailable, must.Err(shared(t, folder).ReadAll(context.Background(), anything)),
		"reading the file: is a directory")
}

func TestTextHasNoNUL(t *testing.T) {
	for first, want := range map[string]bool{"": true, "Action,Pointer\n": true, "größer": true, "a\x00": false} {
		require.Equal(t, want, process.IsText([]byte(first)), "%q", first)
	}
}
