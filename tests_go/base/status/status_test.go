package status_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/tests_go/must"
)

func TestNamesAreCanonicalAndUnique(t *testing.T) {
	want := map[status.Code]string{
		status.Unknown:            "UNKNOWN",
		status.InvalidArgument:    "INVALID_ARGUMENT",
		status.InvalidType:        "INVALID_TYPE",
		status.FailedPrecondition: "FAILED_PRECONDITION",
		status.ResourceExhausted:  "RESOURCE_EXHAUSTED",
		status.NotFound:           "NOT_FOUND",
		status.AlreadyExists:      "ALREADY_EXISTS",
		status.Unavailable:        "UNAVAILABLE",
		status.Unimplemented:      "UNIMPLEMENTED",
		status.Internal:           "INTERNAL",
		status.Value:              "VALUE",
		status.State:              "STATE",
	}
	for code, name := range want {
		require.Equal(t, name, code.String())
	}
}

func TestNumbersThatAreNoKindAreUnknown(t *testing.T) {
	require.Equal(t, "UNKNOWN", status.Code(-1).String())
	require.Equal(t, "UNKNOWN", (status.State + 1).String(), "State is the last kind")
	var zero status.Code
	require.Equal(t, status.Unknown, zero)
}

func TestAnErrorSaysItsMessageOnly(t *testing.T) {
	err := status.Errorf(status.NotFound, "no device %q", "GPU:7")
	require.EqualError(t, err, `no device "GPU:7"`)
	must.Fail(t, status.NotFound, err)
}

func TestTheCauseIsFound(t *testing.T) {
	err := status.Errorf(status.Unavailable, "read: %w", io.ErrUnexpectedEOF)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	var typed *status.Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, status.Unavailable, typed.Code)
}

func TestCodeOf(t *testing.T) {
	exhausted := status.Errorf(status.ResourceExhausted, "full")
	for _, row := range []struct {
		name string
		err  error
		want status.Code
	}{
		{"nothing", nil, status.Unknown},
		{"an unclassified error", errors.New("odd"), status.Unknown},
		{"a plain one", exhausted, status.ResourceExhausted},
		{"wrapped by fmt", fmt.Errorf("GPU:0: %w", exhausted), status.ResourceExhausted},
		{"joined", errors.Join(errors.New("odd"), exhausted), status.ResourceExhausted},
		{"the outermost decides", status.Errorf(status.Internal, "broken: %w", exhausted), status.Internal},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, status.CodeOf(row.err)) })
	}
}
