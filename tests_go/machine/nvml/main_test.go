package nvml_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets this binary be the program under test: a process that loads NVML as a user's would, in an environment
// that a test chooses. The loader reads LD_LIBRARY_PATH and LD_BIND_NOW only when a process starts.
func TestMain(m *testing.M) {
	if job := os.Getenv("NVML_TEST_JOB"); job != "" {
		if err := json.NewEncoder(os.Stdout).Encode(jobs[job]()); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// jobs are what such a process can do. The result is written as JSON.
var jobs = map[string]func() any{}

// runJob runs a job in a new process, and reads its result.
func runJob[T any](t *testing.T, job string, environment ...string) (answer T) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(cleanEnvironment(), append(environment, "NVML_TEST_JOB="+job, "GORACE=atexit_sleep_ms=0")...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	require.NoError(t, err, "%s", out)
	require.NoError(t, json.Unmarshal(out, &answer), "%s", out)
	return answer
}

// cleanEnvironment returns the environment without variables that affect the loader or the fake.
func cleanEnvironment() (environment []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPATH",
		"GOPROXY", "CC"} {
		if value, set := os.LookupEnv(name); set {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}
