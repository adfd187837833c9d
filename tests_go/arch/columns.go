package arch

import (
	"fmt"
	"go/ast"
	"go/token"
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
	for i, line := range strings.Split(string(f.Source), "\n") {
		columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if columns > mostColumns && !raw[i+1] && !strings.HasPrefix(line, "//\t") {
			broken = append(broken,
				fmt.Sprintf("%s:%d: %d columns: break the line, at most %d", f.Path, i+1, columns, mostColumns))
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
