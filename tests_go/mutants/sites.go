package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// Site is one place of a source file, and the text that a mutant has there.
type Site struct {
	Path     string `json:"path"`
	Line     int    `json:"line"`
	Function string `json:"function"` // "Allocator.grow"; "" outside of functions
	Kind     string `json:"kind"`     // comparison, constant, condition, error or call
	Start    int    `json:"start"`    // the bytes source[Start:End] are replaced
	End      int    `json:"end"`
	New      string `json:"new"`
	Shown    string `json:"shown"` // the expression or statement around it, as it was
}

// opposites are the operators that replace others: the nearest wrong one each.
var opposites = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// finder walks one file.
type finder struct {
	path     string
	source   []byte
	file     *token.File
	function string
	errors   bool // the function's last result is an error
	results  int
	sites    []Site
}

// SitesOf returns the sites of one file.
func SitesOf(path string, source []byte) ([]Site, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{path: path, source: source, file: set.File(syntax.Pos())}
	for _, decl := range syntax.Decls {
		if function, ok := decl.(*ast.FuncDecl); ok {
			f.function = nameOf(function)
			if isChecker(f.function) {
				continue
			}
			f.inFunction(function.Type, function.Body)
			continue
		}
		f.function = ""
		ast.Inspect(decl, f.visit)
	}
	return f.sites, nil
}

// isChecker reports whether a function checks invariants, for tests. That of a ledger is a command of users.
func isChecker(function string) bool {
	receiver, _, _ := strings.Cut(function, ".")
	return receiver == "checker" || strings.HasSuffix(receiver, "Check") || function == "bitmap.check" ||
		strings.HasSuffix(function, ".Check") && function != "Ledger.Check"
}

// nameOf returns a function's name, with the type's for a method.
func nameOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + function.Name.Name
	}
	return function.Name.Name
}

// inFunction walks a body, whose return statements give results of the type.
func (f *finder) inFunction(signature *ast.FuncType, body *ast.BlockStmt) {
	if body == nil {
		return
	}
	errors, results := f.errors, f.results
	f.errors, f.results = false, signature.Results.NumFields()
	if f.results > 0 {
		last, ok := signature.Results.List[len(signature.Results.List)-1].Type.(*ast.Ident)
		f.errors = ok && last.Name == "error"
	}
	ast.Inspect(body, f.visit)
	f.errors, f.results = errors, results
}

func (f *finder) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.FuncLit:
		f.inFunction(n.Type, n.Body)
		return false
	case *ast.IfStmt:
		if !isCheck(n.Cond) {
			f.add("condition", n.Cond, "!("+f.text(n.Cond)+")", n.Cond)
		} else {
			return false
		}
	case *ast.BinaryExpr:
		if opposite, ok := opposites[n.Op]; ok {
			kind := "comparison"
			if n.Op == token.LAND || n.Op == token.LOR {
				kind = "condition"
			}
			f.addBytes(kind, f.file.Offset(n.OpPos), len(n.Op.String()), opposite.String(), n)
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			f.addBytes("constant", f.file.Offset(n.Pos()), len(n.Value), "("+n.Value+" + 1)", n)
		}
	case *ast.ReturnStmt:
		if f.errors && len(n.Results) == f.results {
			if last := n.Results[len(n.Results)-1]; f.text(last) != "nil" {
				f.add("error", last, "nil", n)
			}
		}
	case *ast.CallExpr:
		return !leavesAlone(n)
	case *ast.ExprStmt:
		return f.call(n, n.X)
	case *ast.DeferStmt:
		return f.call(n, n.Call)
	}
	return true
}

// call adds the removal of a call that is a whole statement.
func (f *finder) call(statement ast.Stmt, expression ast.Expr) bool {
	call, ok := expression.(*ast.CallExpr)
	if !ok {
		return true
	}
	if leavesAlone(call) {
		return false
	}
	f.add("call", statement, "", statement)
	return true
}

// isCheck reports whether a condition switches checks on that releases do not have.
func isCheck(condition ast.Expr) bool {
	found := false
	ast.Inspect(condition, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			found = found || isSelector(selector, "invariants", "Enabled")
		}
		return !found
	})
	return found
}

// leavesAlone reports whether a call has nothing to change: checks that releases do not have, and signals to
// processes, which a mutant would send in earnest.
func leavesAlone(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (isSelector(selector, "invariants", "Check") || isSelector(selector, "unix", "Kill"))
}

func isSelector(selector *ast.SelectorExpr, pkg, name string) bool {
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == pkg && selector.Sel.Name == name
}

func (f *finder) text(node ast.Node) string {
	return string(f.source[f.file.Offset(node.Pos()):f.file.Offset(node.End())])
}

func (f *finder) add(kind string, replaced ast.Node, replacement string, shown ast.Node) {
	start := f.file.Offset(replaced.Pos())
	f.addBytes(kind, start, f.file.Offset(replaced.End())-start, replacement, shown)
}

func (f *finder) addBytes(kind string, start, length int, replacement string, shown ast.Node) {
	text := strings.Join(strings.Fields(f.text(shown)), " ")
	if n, ok := shown.(*ast.BasicLit); ok { // the line says more than the number
		text = f.line(n)
	}
	f.sites = append(f.sites, Site{Path: f.path, Line: f.file.Line(shown.Pos()), Function: f.function, Kind: kind,
		Start: start, End: start + length, New: replacement, Shown: text})
}

// line returns the line that a node begins in.
func (f *finder) line(node ast.Node) string {
	at := f.file.Offset(node.Pos())
	begin := strings.LastIndexByte(string(f.source[:at]), '\n') + 1
	rest, _, _ := strings.Cut(string(f.source[begin:]), "\n")
	return strings.Join(strings.Fields(rest), " ")
}
