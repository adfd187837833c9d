// Package must takes apart what a call returns, so that a test says in one line that a call succeeds, or how it fails:
//
//	b := must.OK(a.Allocate(1000))(t)
//	must.Fail(t, status.InvalidArgument, must.Err(a.Allocate(-1)), "a negative size")
package must

import (
	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
)

// OK returns the value of a call that must not fail. The message is for its failure.
func OK[V any](value V, err error) func(t require.TestingT, message ...any) V {
	return func(t require.TestingT, message ...any) V {
		require.NoError(t, err, message...)
		return value
	}
}

// OK2 is OK for two values.
func OK2[V, W any](value V, other W, err error) func(t require.TestingT, message ...any) (V, W) {
	return func(t require.TestingT, message ...any) (V, W) {
		require.NoError(t, err, message...)
		return value, other
	}
}

// Fail checks the code of an error, and that its text contains these.
func Fail(t require.TestingT, code status.Code, err error, texts ...string) {
	require.Error(t, err)
	require.Equal(t, code.String(), status.CodeOf(err).String(), "the kind of: %v", err)
	for _, text := range texts {
		require.ErrorContains(t, err, text)
	}
}

// Err returns the error of a call.
func Err[V any](_ V, err error) error { return err }

// Err2 is Err for two values.
func Err2[V, W any](_ V, _ W, err error) error { return err }
