// Package compiled compiles C sources for test libraries, each once for all packages and passes that use it.
package compiled

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Root is the repository's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Compiler returns the command of the C compiler: $CC, or cc.
func Compiler() []string {
	if words := strings.Fields(os.Getenv("CC")); len(words) > 0 {
		return words
	}
	return []string{"cc"}
}

// Sources returns the C files of folders, which are relative to Root.
func Sources(folders ...string) (files []string, err error) {
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(Root(), folder, "*.c"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no source in %s: %w", folder, err)
		}
		files = append(files, found...)
	}
	return files, nil
}

// Objects compiles sources of the simulator, unless they are compiled already with the same headers and flags, and
// returns the object files. Defines are NAME=value; a source gets those that it names.
// tests_go/machine/fakecuda/build.py does the same.
func Objects(sources, flags, defines []string) ([]string, error) {
	folder := filepath.Join(Root(), "build", "objects")
	common, err := headers()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	objects, failures := make([]string, len(sources)), make([]error, len(sources))
	var all sync.WaitGroup
	free := make(chan struct{}, runtime.NumCPU())
	for i, source := range sources {
		all.Go(func() {
			free <- struct{}{}
			objects[i], failures[i] = object(folder, source, common, flags, defines)
			<-free
		})
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// headers returns a digest of all headers of the simulator.
func headers() (string, error) {
	digest := sha256.New()
	folders := []string{"gocore/machine", "gocore/lease/budget", "gocore/sim"}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(Root(), folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".h" {
				return err
			}
			text, err := os.ReadFile(path)
			digest.Write(text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return string(digest.Sum(nil)), nil
}

func object(folder, source, common string, flags, defines []string) (string, error) {
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	command := append(Compiler(), flags...)
	for _, define := range defines {
		if name, _, _ := strings.Cut(define, "="); strings.Contains(string(text), name) {
			command = append(command, "-D"+define)
		}
	}
	digest := sha256.Sum256([]byte(strings.Join(append(command, source, common, string(text)), "\x00")))
	base := strings.TrimSuffix(filepath.Base(source), ".c")
	target := filepath.Join(folder, fmt.Sprintf("%s-%x.o", base, digest[:16]))
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	own, err := os.MkdirTemp(folder, "") // other processes compile, too
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(own) }()
	command = append(command, "-c", source, "-o", filepath.Join(own, "it.o"))
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s: %w\n%s", source, err, output)
	}
	return target, os.Rename(filepath.Join(own, "it.o"), target)
}
