package fakecuda

import (
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// RunOver is the body of a TestMain: it runs the tests over fake libraries, which build puts into a folder. The loader
// reads its search path when a process starts, so the program re-executes itself, with that folder in folderEnv and
// extra in its environment. attach is called before the tests, and the folder is removed after them.
func RunOver(m *testing.M, folderEnv string, build func(folder string) error, attach func() error, extra ...string) {
	folder := os.Getenv(folderEnv)
	if folder == "" {
		Must(startAnew(folderEnv, build, extra))
	}
	Must(attach())
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

func startAnew(folderEnv string, build func(folder string) error, extra []string) error {
	folder, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		return err
	}
	if err := build(folder); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, Environ(folder, append(extra, folderEnv+"="+folder)...))
}

// Must panics with an error: without the fake libraries no test can run.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}
