// Package must takes apart what a call returns, so that a test says in one line that a call succeeds, or how it fails:
//
//	b := must.OK(a.Allocate(1000))(t)
//	require.ErrorIs(t, must.Err(a.Allocate(0)), want)
package must

import "github.com/stretchr/testify/require"

// helper is a test that leaves the functions which only check for it out of what it prints.
type helper interface{ Helper() }

// OK returns the value of a call that must not fail. The message is for its failure.
func OK[V any](value V, err error) func(t require.TestingT, message ...any) V {
	return func(t require.TestingT, message ...any) V {
		if h, ok := t.(helper); ok {
			h.Helper()
		}
		require.NoError(t, err, message...)
		return value
	}
}

// OK2 is OK for two values.
func OK2[V, W any](value V, other W, err error) func(t require.TestingT, message ...any) (V, W) {
	return func(t require.TestingT, message ...any) (V, W) {
		if h, ok := t.(helper); ok {
			h.Helper()
		}
		require.NoError(t, err, message...)
		return value, other
	}
}

// Err returns the error of a call.
func Err[V any](_ V, err error) error { return err }

// Err2 is Err for two values.
func Err2[V, W any](_ V, _ W, err error) error { return err }
