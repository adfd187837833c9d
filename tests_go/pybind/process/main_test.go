//go:build cgo

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/machine/fakecuda"
)

// childEnv names a job to run in a separate process instead of the tests: a panic stops the core for good.
const childEnv = "GPUCONF_PROCESS_TEST_CHILD"

var children = map[string]func() string{}

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childEnv)]; ok {
		fmt.Print(child())
		return
	}
	fakecuda.RunShipped(m)
}

// inChild runs a child, which returns what went wrong.
func inChild(t *testing.T, name string) {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), childEnv+"="+name)
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, string(output))
}
