package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"sluice/test/mutants/switches"
)

// The kinds of mutations. They are the second field of survivors.txt.
const (
	negated    = "negated"    // == becomes !=, < becomes >=, and so on
	boundary   = "boundary"   // < becomes <=, <= becomes <, and so on
	arithmetic = "arithmetic" // + becomes -, * becomes /, and the reverse; % becomes *; also in ++, -- and assignments
	logical    = "logical"    // && becomes ||, and the reverse
	not        = "not"        // ! is removed
)

// mutation is one changed operator in a package. Its number is its index in the package.
type mutation struct {
	file   string // relative to the root, with slashes
	line   int    // counted from 1
	column int    // where the operator is, in bytes, counted from 1
	kind   string
	change string // as in "< becomes <="
	text   string // the line, without the white space around it
}

func (m mutation) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s: %s", m.file, m.line, m.column, m.kind, m.change, m.text)
}

// instrumented is a package in which each mutation is a switch.
type instrumented struct {
	mutations []mutation
	files     map[string][]byte // the new text of each file that has a mutation, by absolute name
}

// Names in the instrumented code.
const (
	switchesPath = "sluice/test/mutants/switches"
	switchesName = "mutants_switches"
)

// instrument type-checks the package in a folder below root, without its tests, and replaces the
// operators of its non-constant expressions by calls of package switches. A constant expression
// cannot be switched while the program runs, and has no mutation.
func instrument(ctx context.Context, root, dir string) (*instrumented, error) {
	listed, err := listPackage(ctx, root, dir)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range listed.files {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", listed.open)}
	if _, err := config.Check(dir, fset, files, info); err != nil {
		return nil, err
	}
	out := &instrumented{files: map[string][]byte{}}
	for i, file := range files {
		text, err := os.ReadFile(listed.files[i])
		if err != nil {
			return nil, err
		}
		r := rewriter{
			name: path.Join(filepath.ToSlash(dir), filepath.Base(listed.files[i])), text: text, file: fset.File(file.FileStart), types: info.Types,
			mutations: out.mutations, before: map[int]string{}, after: map[int]string{}, instead: map[int]replacement{},
		}
		ast.Inspect(file, r.visit)
		if len(r.mutations) == len(out.mutations) {
			continue
		}
		// The import follows the package clause in its line, so that lines keep their numbers.
		r.after[r.offset(file.Name.End())] = "; import " + switchesName + ` "` + switchesPath + `"`
		out.mutations, out.files[listed.files[i]] = r.mutations, r.rewritten()
	}
	if len(out.mutations) > switches.Max {
		return nil, fmt.Errorf("%s has %d mutations, more than %d", dir, len(out.mutations), switches.Max)
	}
	return out, nil
}

// listedPackage is a package as the go command lists it.
type listedPackage struct {
	files   []string          // absolute names, sorted
	exports map[string]string // the files of export data of its dependencies, by import path
}

func (l *listedPackage) open(importPath string) (io.ReadCloser, error) {
	name, ok := l.exports[importPath]
	if !ok {
		return nil, fmt.Errorf("no export data of %s", importPath)
	}
	return os.Open(name)
}

func listPackage(ctx context.Context, root, dir string) (*listedPackage, error) {
	list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export", "./"+dir)
	list.Dir, list.Stderr = root, os.Stderr
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", dir, err)
	}
	listed := &listedPackage{exports: map[string]string{}}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return listed, nil
		} else if err != nil {
			return nil, err
		}
		listed.exports[p.ImportPath] = p.Export
		// Dependencies are listed before the package itself, which is the last.
		listed.files = nil
		for _, name := range p.GoFiles {
			listed.files = append(listed.files, filepath.Join(p.Dir, name))
		}
	}
}

// rewriter collects the mutations of one file. It only inserts text around expressions and replaces
// operators, so that expressions can be nested in each other.
type rewriter struct {
	name      string
	text      []byte
	file      *token.File
	types     map[ast.Expr]types.TypeAndValue
	mutations []mutation

	before, after map[int]string      // text to insert, by offset; after comes before before
	instead       map[int]replacement // by offset
}

type replacement struct {
	length int
	text   string
}

func (r *rewriter) offset(p token.Pos) int { return r.file.Offset(p) }

// source returns an expression's text.
func (r *rewriter) source(e ast.Expr) string {
	return string(r.text[r.offset(e.Pos()):r.offset(e.End())])
}

// add records that the operator at a position is mutated, and returns the mutation's number.
func (r *rewriter) add(at token.Pos, kind, from, to string) int {
	where := r.file.Position(at)
	start := r.offset(r.file.LineStart(where.Line))
	line, _, _ := bytes.Cut(r.text[start:], []byte("\n"))
	r.mutations = append(r.mutations, mutation{
		file: r.name, line: where.Line, column: where.Column, kind: kind,
		change: from + " becomes " + to, text: strings.TrimSpace(string(line)),
	})
	return len(r.mutations) - 1
}

// wrap makes an expression the last argument in a call to package switches.
func (r *rewriter) wrap(e ast.Expr, function string, id int) {
	start, end := r.offset(e.Pos()), r.offset(e.End())
	r.before[start] += call(function, id)
	r.after[end] = ")" + r.after[end] // the expressions inside e end before it
}

// wrapOperands makes an expression's operands the arguments in a call to package switches.
func (r *rewriter) wrapOperands(e *ast.BinaryExpr, function string, id int) {
	r.wrap(e, function, id)
	r.instead[r.offset(e.OpPos)] = replacement{len(e.Op.String()), ","}
}

func call(function string, id int) string {
	return fmt.Sprintf("%s.%s(%d, ", switchesName, function, id)
}

// swap is an operator's mutation and the function that has both.
type swap struct {
	becomes  token.Token
	function string
}

var negations = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
}

var boundaries = map[token.Token]swap{
	token.LSS: {token.LEQ, "Less"}, token.LEQ: {token.LSS, "LessEqual"}, token.GTR: {token.GEQ, "Greater"}, token.GEQ: {token.GTR, "GreaterEqual"},
}

var arithmetics = map[token.Token]swap{
	token.ADD: {token.SUB, "Add"}, token.SUB: {token.ADD, "Sub"}, token.MUL: {token.QUO, "Mul"}, token.QUO: {token.MUL, "Quo"}, token.REM: {token.MUL, "Rem"},
}

// assignments are the binary operators by their assignments.
var assignments = map[token.Token]token.Token{
	token.ADD_ASSIGN: token.ADD, token.SUB_ASSIGN: token.SUB, token.MUL_ASSIGN: token.MUL, token.QUO_ASSIGN: token.QUO, token.REM_ASSIGN: token.REM,
}

// visit is called for each node before those inside it, so that the text that it inserts for the
// outer of two expressions that begin together comes first.
func (r *rewriter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		r.binary(n)
	case *ast.UnaryExpr:
		// A comparison's negation is a mutation already.
		if n.Op == token.NOT && r.isBool(n) && !isComparison(n.X) {
			r.wrap(n, "Flip", r.add(n.OpPos, not, "!x", "x"))
		}
	case *ast.IncDecStmt:
		op, inverse := token.ADD, token.DEC
		if n.Tok == token.DEC {
			op, inverse = token.SUB, token.INC
		}
		if r.isNumber(n.X) && repeatable(n.X) {
			id := r.add(n.TokPos, arithmetic, n.Tok.String(), inverse.String())
			r.instead[r.offset(n.TokPos)] = replacement{2, " = " + call(arithmetics[op].function, id) + r.source(n.X) + ", 1)"}
		}
	case *ast.AssignStmt:
		if op, ok := assignments[n.Tok]; ok {
			r.assignment(n, op)
		}
	}
	return true
}

func (r *rewriter) binary(e *ast.BinaryExpr) {
	if negation, ok := negations[e.Op]; ok && r.isBool(e) {
		r.wrap(e, "Flip", r.add(e.OpPos, negated, e.Op.String(), negation.String()))
		if s, ok := boundaries[e.Op]; ok && !r.shifts(e.X) && !r.shifts(e.Y) {
			r.wrapOperands(e, s.function, r.add(e.OpPos, boundary, e.Op.String(), s.becomes.String()))
		}
	}
	if s, ok := arithmetics[e.Op]; ok && r.isNumber(e) && !r.shifts(e.X) && !r.shifts(e.Y) {
		r.wrapOperands(e, s.function, r.add(e.OpPos, arithmetic, e.Op.String(), s.becomes.String()))
	}
	if (e.Op == token.LAND || e.Op == token.LOR) && r.isBool(e) && r.isBool(e.X) && r.isBool(e.Y) {
		becomes := token.LOR
		if e.Op == token.LOR {
			becomes = token.LAND
		}
		// x || y is !(!x && !y). The second operand is evaluated only if the operator needs it, as
		// before.
		id := r.add(e.OpPos, logical, e.Op.String(), becomes.String())
		for _, flipped := range []ast.Expr{e, e.X, e.Y} {
			r.wrap(flipped, "Flip", id)
		}
	}
}

// assignment turns x += y into x = Add(x, y).
func (r *rewriter) assignment(n *ast.AssignStmt, op token.Token) {
	x, y := n.Lhs[0], n.Rhs[0]
	if !r.isNumber(x) || !repeatable(x) || r.shifts(y) {
		return
	}
	s := arithmetics[op]
	id := r.add(n.TokPos, arithmetic, n.Tok.String(), s.becomes.String()+"=")
	r.instead[r.offset(n.TokPos)] = replacement{len(n.Tok.String()), "= " + call(s.function, id) + r.source(x) + ","}
	r.after[r.offset(y.End())] = ")" + r.after[r.offset(y.End())]
}

// isBool reports whether an expression has a value of type bool that is not a constant. Values of
// other boolean types have no mutations.
func (r *rewriter) isBool(e ast.Expr) bool {
	t := r.types[e]
	basic, ok := t.Type.(*types.Basic)
	return ok && t.Value == nil && (basic.Kind() == types.Bool || basic.Kind() == types.UntypedBool)
}

// isNumber reports whether an expression has an integer or floating-point type and is not a
// constant. Values of type parameters have no arithmetic mutations, because their type may be a
// string.
func (r *rewriter) isNumber(e ast.Expr) bool {
	t := r.types[e]
	if t.Type == nil || t.Value != nil {
		return false
	}
	basic, ok := t.Type.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsInteger|types.IsFloat) != 0
}

// shifts reports whether an operand holds a shift like 1<<n outside a call. The type of its
// constant follows from its context, which differs if it is an argument.
func (r *rewriter) shifts(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		shift, ok := n.(*ast.BinaryExpr)
		if ok && (shift.Op == token.SHL || shift.Op == token.SHR) && r.types[shift].Value == nil && r.types[shift.X].Value != nil {
			found = true
		}
		_, ok = n.(*ast.CallExpr)
		return !ok
	})
	return found
}

// repeatable reports whether an operand may be evaluated twice.
func repeatable(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			ok = false
		case *ast.UnaryExpr:
			ok = ok && n.Op != token.ARROW
		}
		return ok
	})
	return ok
}

func isComparison(e ast.Expr) bool {
	binary, ok := ast.Unparen(e).(*ast.BinaryExpr)
	if ok {
		_, ok = negations[binary.Op]
	}
	return ok
}

// rewritten returns the file's text with the switches in it.
func (r *rewriter) rewritten() []byte {
	var out bytes.Buffer
	for i := 0; i <= len(r.text); i++ {
		out.WriteString(r.after[i])
		out.WriteString(r.before[i])
		if with, ok := r.instead[i]; ok {
			out.WriteString(with.text)
			i += with.length - 1
		} else if i < len(r.text) {
			out.WriteByte(r.text[i])
		}
	}
	return out.Bytes()
}
