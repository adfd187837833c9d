package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func document(t *testing.T, path string) string {
	text, err := os.ReadFile(filepath.Join(root(t), path))
	require.NoError(t, err)
	return string(text)
}

func TestEveryPackageStandsInTheArchitecture(t *testing.T) {
	text := document(t, "ARCHITECTURE.md")
	rooms, err := os.ReadDir(filepath.Join(root(t), "gocore"))
	require.NoError(t, err)
	require.NotEmpty(t, rooms)
	for _, room := range rooms {
		require.Regexp(t, `gocore/`+room.Name()+`\b`, text, "ARCHITECTURE.md, The rooms")
		packages, err := os.ReadDir(filepath.Join(root(t), "gocore", room.Name()))
		require.NoError(t, err)
		for _, folder := range packages {
			if folder.IsDir() {
				require.Regexp(t, `\b`+folder.Name()+`\b`, text, "ARCHITECTURE.md, The rooms")
			}
		}
	}
}

func TestPathsInTheDocumentsExist(t *testing.T) {
	path := regexp.MustCompile(
		"`((?:gocore|pybind|python|tests_go|tests_py|examples|benchmarks|docs)/[a-zA-Z0-9_./-]*)`")
	rooms, err := filepath.Glob(filepath.Join(root(t), "gocore/*/README.md"))
	require.NoError(t, err)
	require.NotEmpty(t, rooms)
	documents := []string{"ARCHITECTURE.md", "README.md", "docs/differences.md", "pybind/README.md", "python/README.md"}
	for _, room := range rooms {
		documents = append(documents, "gocore/"+filepath.Base(filepath.Dir(room))+"/README.md")
	}
	for _, name := range documents {
		t.Run(name, func(t *testing.T) {
			found := path.FindAllStringSubmatch(document(t, name), -1)
			for _, match := range found {
				_, err := os.Stat(filepath.Join(root(t), match[1]))
				require.NoError(t, err, "%s names %s", name, match[1])
			}
			if name == "docs/differences.md" {
				require.Greater(t, len(found), 15, "a test for each difference")
			}
		})
	}
}
