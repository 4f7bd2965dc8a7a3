package expr

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// Bounds of an expression and of its evaluation.
const (
	// MaxBytes bounds the text of an expression.
	MaxBytes = 4096
	// MaxCost bounds one evaluation, in the cost units of CEL. A call costs about one unit, and so do ten bytes that are read.
	MaxCost = 100_000
	// maxNodes and maxDepth bound the number of nodes and the depth of an expression's syntax tree. maxNodes also bounds
	// the size of a compiled regular expression.
	maxNodes = 1000
	maxDepth = 32
	// maxKey bounds the result of [Text], in bytes.
	maxKey = 1024
)

// Kind is the type of an expression's result.
type Kind uint8

const (
	// Bool is true or false.
	Bool Kind = iota + 1
	// Text is a string.
	Text
)

// Error is a fault of an expression or of its evaluation.
type Error struct {
	// Line and Column count from 1; 0 = the whole expression.
	Line, Column int
	Message      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message)
}

// Language is the set of names that expressions for one purpose may use. It is immutable and safe for concurrent use.
type Language struct{ env *cel.Env }

// NewLanguage returns a language with the given variables. The values of the variables in objects are JSON objects; the values
// of those in texts are strings.
func NewLanguage(objects, texts []string) (*Language, error) {
	opts := []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxBytes),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxNodes),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals()),
	}
	for _, name := range objects {
		opts = append(opts, cel.Variable(name, cel.MapType(cel.StringType, cel.DynType)))
	}
	for _, name := range texts {
		opts = append(opts, cel.Variable(name, cel.StringType))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		return nil, fmt.Errorf("condition: %w", err)
	}
	return &Language{env: env}, nil
}

// Program is a compiled expression. Immutable, safe for concurrent use.
type Program struct {
	program cel.Program
	kind    Kind
	names   map[string]bool
}

// Compile checks an expression and compiles it. The error is an [*Error].
func (l *Language) Compile(text string, kind Kind) (*Program, error) {
	if len(text) == 0 || len(text) > MaxBytes {
		return nil, &Error{Message: fmt.Sprintf("an expression has 1 to %d bytes, got %d", MaxBytes, len(text))}
	}
	checked, issues := l.env.Compile(text)
	if issues.Err() != nil {
		return nil, issueOf(issues)
	}
	want := cel.BoolType
	if kind == Text {
		want = cel.StringType
	}
	if got := checked.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, &Error{Message: fmt.Sprintf("it gives %s, want %s", got, want)}
	}
	if least, err := l.least(checked); err != nil || least > MaxCost {
		return nil, &Error{Message: fmt.Sprintf("its evaluation takes at least %d steps, at most %d are taken", least, MaxCost)}
	}
	program, err := l.env.Program(checked, cel.CostLimit(MaxCost))
	if err != nil {
		return nil, &Error{Message: strings.TrimSpace(err.Error())}
	}
	return &Program{program: program, kind: kind, names: namesOf(checked)}, nil
}

// least returns the smallest cost that an evaluation can have.
func (l *Language) least(checked *cel.Ast) (uint64, error) {
	cost, err := l.env.EstimateCost(checked, sizes{})
	return cost.Min, err
}

// issueOf returns the first fault as an error.
func issueOf(issues *cel.Issues) *Error {
	all := issues.Errors()
	if len(all) == 0 {
		return &Error{Message: issues.Err().Error()}
	}
	first := all[0]
	if first.Location.Line() < 1 {
		return &Error{Message: first.Message} // the fault is in the whole expression
	}
	return &Error{Line: first.Location.Line(), Column: first.Location.Column() + 1, Message: first.Message}
}

// namesOf returns the variables that an expression may read.
func namesOf(checked *cel.Ast) map[string]bool {
	names := map[string]bool{}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			names[e.AsIdent()] = true
		}
	}))
	return names
}

// Reads reports whether the expression reads a variable. The caller need not load variables that it does not read.
func (p *Program) Reads(name string) bool { return p.names[name] }

// Holds evaluates an expression of kind [Bool]. vars are the variables by name: objects as map[string]any, made by [Value] from JSON, and
// texts as string. The error is an [*Error].
func (p *Program) Holds(vars map[string]any) (bool, error) {
	out, err := p.eval(vars)
	if err != nil {
		return false, err
	}
	holds, ok := out.(bool)
	if !ok {
		return false, &Error{Message: fmt.Sprintf("it gave %T, want a bool", out)}
	}
	return holds, nil
}

// Text evaluates an expression of kind [Text]. vars and the error are the same as for [Program.Holds].
func (p *Program) Text(vars map[string]any) (string, error) {
	out, err := p.eval(vars)
	if err != nil {
		return "", err
	}
	text, ok := out.(string)
	switch {
	case !ok:
		return "", &Error{Message: fmt.Sprintf("it gave %T, want a string", out)}
	case len(text) > maxKey:
		return "", &Error{Message: fmt.Sprintf("it gave a text of %d bytes, at most %d are taken", len(text), maxKey)}
	}
	return text, nil
}

// eval evaluates the expression. It returns a panic of the library as an error, so that an expression cannot end the process.
func (p *Program) eval(vars map[string]any) (out any, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, &Error{Message: fmt.Sprintf("the evaluation failed: %v", r)}
		}
	}()
	value, _, err := p.program.Eval(vars)
	if err != nil {
		if own, ok := errors.AsType[*types.Err](err); ok {
			return nil, &Error{Message: own.Error()}
		}
		return nil, &Error{Message: err.Error()}
	}
	return value.Value(), nil
}
