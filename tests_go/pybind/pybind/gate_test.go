//go:build cgo

package pybind_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind"
	"gpuconf/pybind/process"
)

// gated is a bound function with a body from the test.
func gated(body func() error) (err error) {
	defer process.Gate(&err)
	return body()
}

func TestGateMarksErrors(t *testing.T) {
	require.NoError(t, gated(func() error { return nil }))
	for _, row := range []struct {
		name string
		err  error
		kind status.Code
		text string
	}{
		{"a known kind", status.Errorf(status.NotFound, "no such thing"), status.NotFound, "no such thing"},
		{"a wrapped kind", fmt.Errorf("outside: %w", status.Errorf(status.InvalidType, "inside")), status.InvalidType,
			"outside: inside"},
		{"the outermost of two", status.Errorf(status.Internal, "a: %w", status.Errorf(status.NotFound, "b")),
			status.Internal, "a: b"},
		{"a join", errors.Join(status.Errorf(status.ResourceExhausted, "first"), errors.New("second")),
			status.ResourceExhausted, "first\nsecond"},
		{"unclassified", errors.New("plain"), status.Unknown, "plain"},
		{"a NUL, which would end the text", errors.New("a\x00b"), status.Unknown, `a\0b`},
		{"marks, which would split it", errors.New("\x1eNOT_FOUND\x1eb"), status.Unknown, " NOT_FOUND b"},
		{"broken UTF-8", errors.New("a\xff\xfeb\xc3"), status.Unknown, "a\uFFFDb\uFFFD"},
		{"a name that goes on and on", fmt.Errorf("no %s here", strings.Repeat("ä", 50_000)), status.Unknown,
			"no " + strings.Repeat("ä", 100) + "... 99700 bytes ..." + strings.Repeat("ä", 50) + " here"},
		{"many words", errors.New(strings.Repeat("word ", 5000)), status.Unknown, strings.Repeat("word ", 5000)},
		{"other languages", errors.New("größer als 1 TiB 漢字"), status.Unknown, "größer als 1 TiB 漢字"},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.text, requireKind(t, row.kind, gated(func() error { return row.err })))
		})
	}
	require.NoError(t, process.Alive(), "an error is no panic")
	require.Equal(t, "unmarked", process.Unmark(errors.New("unmarked")))
}

// Each call of C and Python goes through the gate, and a block is allocated in less time than the garbage collector
// takes for a variable.
func TestTheGateAllocatesNothingWithoutAnError(t *testing.T) {
	nothing := func() error { return nil }
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = gated(nothing) }))
}

// panics makes this process panic in many ways, and returns what went wrong. It runs in a separate process.
func panics() string {
	var wrong strings.Builder
	complain := func(format string, args ...any) { fmt.Fprintf(&wrong, format+"\n", args...) }

	// A session that is in use when it happens.
	for _, call := range []func() (string, error){
		func() (string, error) { return pybind.Simulate("T4:1GiB") },
		func() (string, error) { return pybind.Enumerate("{}") },
		func() (string, error) { return pybind.Initialize("{}", "") },
		func() (string, error) { _, err := take(0, 1000); return "", err },
	} {
		if _, err := call(); err != nil {
			complain("before: %v", err)
		}
	}

	var nothing *struct{ field int }
	var noMap map[string]int
	index := 7
	for _, row := range []struct {
		name, says string
		body       func()
	}{
		{"a value", "internal error: chunk 7 is broken", func() { panic("chunk 7 is broken") }},
		{"an error with a NUL", `internal error: a\0b`, func() { panic(errors.New("a\x00b")) }},
		{"nil dereferenced", "nil pointer dereference", func() { nothing.field++ }},
		{"an index", "index out of range [7] with length 3", func() { _ = make([]int, 3)[index] }},
		{"a nil map", "assignment to entry in nil map", func() { noMap["x"] = 1 }},
		{"a wrong type", "interface conversion", func() { _ = any(index).(string) }},
		{"a division", "divide by zero", func() { _ = 1 / (index - 7) }},
		{"nil itself", "panic called with nil argument", func() { panic(nil) }},
	} {
		err := gated(func() error { row.body(); return nil })
		if err == nil {
			complain("%s: no error", row.name)
			continue
		}
		kind, text, complaint := unmark(err)
		if complaint != "" || kind != "INTERNAL" || !strings.Contains(text, row.says) ||
			!strings.Contains(text, "Please report it") ||
			!strings.Contains(text, "gate_test.go") {
			complain("%s: %s %s %s", row.name, complaint, kind, text)
		}
		err = process.Alive()
		if status.CodeOf(err) != status.Internal ||
			!strings.Contains(err.Error(), "chunk 7 is broken. Restart the process") {
			complain("%s: afterwards: %v", row.name, err) // the first panic is the one to report
		}
	}

	// Functions that need the devices are refused from here on. The others keep working.
	harmless := map[string]bool{"DrainNotices": true, "MalformedVariables": true, "MergeScope": true,
		"RequestDevice": true, "ScopeNumber": true, "Setting": true, "SetSetting": true, "Models": true,
		"ParseFleet": true, "SystemReserve": true, "ContextBytes": true, "Specification": true}
	for name, function := range functions {
		if harmless[name] || strings.HasPrefix(name, "Ledger") {
			continue
		}
		f := reflect.ValueOf(function)
		arguments := make([]reflect.Value, f.Type().NumIn())
		for i := range arguments {
			arguments[i] = reflect.Zero(f.Type().In(i))
			if name != "Simulate" && f.Type().In(i).Kind() == reflect.String {
				arguments[i] = reflect.ValueOf("{}")
			}
		}
		if name == "SetVisibleDevices" {
			arguments[0] = reflect.ValueOf("[]")
		}
		err, _ := f.Call(arguments)[1].Interface().(error)
		if err == nil {
			complain("%s works after a panic", name)
			continue
		}
		if kind, text, complaint := unmark(err); complaint != "" || kind != "INTERNAL" ||
			!strings.Contains(text, "Restart the process") {
			complain("%s: %v", name, err)
		}
	}
	for _, name := range []string{"jit", "device_policy"} {
		_, err := pybind.Setting(name)
		if err == nil || !strings.Contains(err.Error(), "Restart the process") {
			complain("Setting(%s): %v", name, err)
		}
	}
	if _, err := pybind.ScopeNumber("/device:GPU:0"); err == nil {
		complain("ScopeNumber works after a panic")
	}
	if _, err := pybind.ScopeNumber(""); err != nil {
		complain("a scope can't be left after a panic: %v", err)
	}
	return wrong.String()
}

func TestGateAfterAPanic(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=panics")
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, string(output))
}
