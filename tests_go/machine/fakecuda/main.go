package fakecuda

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"gpuconf/tests_go/attempt"
)

// RunOver is the body of a TestMain: it runs the tests over fake libraries, which build puts into a folder. The loader
// reads its search path when a process starts, so the program re-executes itself, with that folder in folderEnv and
// extra in its environment. attach is called before the tests, and the folder is removed after them.
func RunOver(m *testing.M, folderEnv string, build func(folder string) error, attach func() error, extra ...string) {
	folder := os.Getenv(folderEnv)
	if folder == "" {
		attempt.Do(startAnew(folderEnv, build, extra))
	}
	attempt.Do(attach())
	verify(m, folder)
}

// verify runs the tests, looks for goroutines that they left, and removes the folder.
func verify(m *testing.M, folder string) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

func startAnew(folderEnv string, build func(folder string) error, extra []string) (err error) {
	defer attempt.Catch(&err)
	folder := attempt.Get(os.MkdirTemp("", "fakecuda"))
	attempt.Do(build(folder))
	self := attempt.Get(os.Executable())
	return syscall.Exec(self, os.Args, Environ(folder, append(extra, folderEnv+"="+folder)...))
}

// shippedEnv names the folder of RunShipped, in the program that has re-executed itself.
const shippedEnv = "FAKECUDA_SHIPPED"

// RunShipped is the body of a TestMain: it runs the tests with the simulated driver where the wheel has it, in the
// folder _simulator beside that of the core, which is the test binary. As the wheel's, it has no GPUs of its own. Go
// builds test binaries side by side, where several would share that folder, so the program re-executes itself under a
// name in a folder of its own.
func RunShipped(m *testing.M) {
	folder := os.Getenv(shippedEnv)
	if folder == "" {
		attempt.Do(startShipped())
	}
	verify(m, folder)
}

func startShipped() (err error) {
	defer attempt.Catch(&err)
	self := attempt.Get(os.Executable())
	folder := attempt.Get(os.MkdirTemp("", "shipped"))
	core, simulator := filepath.Join(folder, "core"), filepath.Join(folder, "_simulator")
	name := filepath.Join(core, filepath.Base(self))
	if err := errors.Join(os.Mkdir(core, 0o700), os.Mkdir(simulator, 0o700), os.Symlink(self, name),
		Build(simulator, Options{})); err != nil {
		return err
	}
	return syscall.Exec(self, append([]string{name}, os.Args[1:]...),
		append(os.Environ(), "FAKECUDA_GPUS=0", shippedEnv+"="+folder))
}
