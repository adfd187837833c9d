// Package attempt ends a test, or a session that catches it, at the first call that fails.
package attempt

import "errors"

type failure struct{ error }

// Do takes the error of a call that may not fail.
func Do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get returns the value of a call that may not fail.
func Get[T any](value T, err error) T {
	Do(err)
	return value
}

// Catch, deferred, turns such an end into the function's error, before what else went wrong.
func Catch(err *error) {
	switch ended := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(ended.error, *err)
	default:
		panic(ended)
	}
}
