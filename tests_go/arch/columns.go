package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// The longest line, in columns. A tab counts as tabColumns.
const (
	mostColumns = 120
	tabColumns  = 4
)

// CheckColumns returns a complaint for each line that is too long. Raw strings and tables in comments, which cannot be
// broken, may be longer.
func CheckColumns(f *File) (broken []string) {
	raw := rawLines(f)
	return longLines(f.Path, string(f.Source), func(number int, line string) bool {
		return raw[number] || strings.HasPrefix(line, "//\t")
	})
}

// CheckColumnsOfC does it for the files of C and C++ below folders of the module: clang-format breaks no comment. Those
// that scripts write, which .clang-format-ignore names, may have longer lines.
func CheckColumnsOfC(root string, folders ...string) (broken []string, err error) {
	ignored, err := os.ReadFile(filepath.Join(root, ".clang-format-ignore"))
	if err != nil {
		return nil, err
	}
	generated := strings.Split(string(ignored), "\n")
	for _, folder := range folders {
		err = filepath.WalkDir(filepath.Join(root, folder), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !slices.Contains([]string{".c", ".h", ".cpp", ".S"}, filepath.Ext(path)) {
				return err
			}
			local, err := filepath.Rel(root, path)
			if err != nil || slices.Contains(generated, local) {
				return err
			}
			source, err := os.ReadFile(path)
			broken = append(broken, longLines(local, string(source), func(int, string) bool { return false })...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return broken, nil
}

// longLines returns a complaint for each line that is too long, unless it may be.
func longLines(path, source string, may func(number int, line string) bool) (broken []string) {
	for i, line := range strings.Split(source, "\n") {
		columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if columns > mostColumns && !may(i+1, line) {
			broken = append(broken,
				fmt.Sprintf("%s:%d: %d columns: break the line, at most %d", path, i+1, columns, mostColumns))
		}
	}
	return broken
}

// rawLines are the numbers of the lines with a part of a raw string.
func rawLines(f *File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && text.Kind == token.STRING && text.Value[0] == '`' {
			for line := f.Set.Position(text.Pos()).Line; line <= f.Set.Position(text.End()).Line; line++ {
				lines[line] = true
			}
		}
		return true
	})
	return lines
}
