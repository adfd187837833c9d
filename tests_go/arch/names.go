package arch

import (
	"fmt"
	"go/ast"
)

const mostLines = 5

// vague are participles that say nothing of what a variable holds. They are allowed for a few lines only.
const vague = "found held taken told"

// CheckNames returns a complaint for each variable with a vague name that lives for more than a few lines.
func CheckNames(f *File) (broken []string) {
	first, last := map[*ast.Object]int{}, map[*ast.Object]int{}
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		name, ok := node.(*ast.Ident)
		if !ok || name.Obj == nil || name.Obj.Kind != ast.Var || !listed(vague, name.Name) {
			return true
		}
		line := f.Set.Position(name.Pos()).Line
		if _, known := first[name.Obj]; !known {
			first[name.Obj] = line
		}
		first[name.Obj], last[name.Obj] = min(first[name.Obj], line), max(last[name.Obj], line)
		return true
	})
	for object, line := range first {
		if lines := last[object] - line; lines > mostLines {
			broken = append(broken, fmt.Sprintf("%s:%d: %s lives for %d lines: name it by what it is",
				f.Path, line, object.Name, lines))
		}
	}
	return broken
}

// CheckFields returns a complaint for each exported field of an exported struct without a comment of its own.
func CheckFields(f *File) (broken []string) {
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok || !spec.Name.IsExported() {
			return true
		}
		structure, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range structure.Fields.List {
			if len(field.Names) == 0 || !field.Names[0].IsExported() || field.Doc != nil || field.Comment != nil {
				continue
			}
			broken = append(broken, fmt.Sprintf("%s:%d: %s.%s has no comment: say what it is, with the unit",
				f.Path, f.Set.Position(field.Pos()).Line, spec.Name.Name, field.Names[0].Name))
		}
		return true
	})
	return broken
}
