package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var include = regexp.MustCompile(`(?m)^#include "([^"]+)"`)

// CheckIncludes returns a complaint for each #include below a folder of the module that leads upwards, as CheckImports
// does for imports. Folders of C that only assemble a library have floors, too.
func CheckIncludes(root, folder string) (broken []string, err error) {
	err = filepath.WalkDir(filepath.Join(root, folder), func(file string, _ os.DirEntry, err error) error {
		if err != nil || !strings.Contains(".c.h.S", path.Ext(file)) || path.Ext(file) == "" {
			return err
		}
		local, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		source, err := os.ReadFile(file)
		broken = append(broken, includesOf(filepath.ToSlash(local), string(source))...)
		return err
	})
	return broken, err
}

// includesOf checks the includes of one file.
func includesOf(file, source string) (broken []string) {
	pkg := strings.TrimPrefix(path.Dir(file), "gocore/")
	if floorOf(pkg) < 0 {
		return []string{fmt.Sprintf("%s: %s has no floor: give it one in tests_go/arch/floors.go", file, pkg)}
	}
	for _, match := range include.FindAllStringSubmatch(source, -1) {
		target := path.Join(path.Dir(file), match[1])
		to := strings.TrimPrefix(path.Dir(target), "gocore/")
		if !strings.Contains(match[1], "/") || to == pkg || strings.HasPrefix(target, "python/gpuconf/include/") {
			continue
		}
		if floorOf(to) < 0 || floorOf(to) > floorOf(pkg) {
			broken = append(broken, fmt.Sprintf("%s includes %s: %s is on floor %d, and %s on floor %d", file, match[1],
				pkg, floorOf(pkg), to, floorOf(to)))
		}
	}
	return broken
}
