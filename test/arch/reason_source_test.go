package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reasonText is the form of a reason.
var reasonText = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)

// notFollowed are the expressions of reasons that reasonsOfCode does not follow, each with the cause.
var notFollowed = map[string]string{
	"a2a/errors.go e.reason":              "of an a2a.Error",
	"a2a/errors.go k.reason":              "of A2A's own domain, but for CALL_ENDED and INTERNAL",
	"a2a/errors.go r.Reason":              "of a machine.Error",
	"grpcapi/apierror/status.go r.Reason": "of a machine.Error",
	"runtime/authority.go d.Reason":       "of a policy.Denied",
}

// goFile is one parsed file of the product.
type goFile struct {
	dir, at string // the directory and the path of the file, below internal/
	tree    *ast.File
	imports map[string]string // the name in the file to the path below internal/
}

// constant is the value of a constant, in the file that declares it.
type constant struct {
	file  *goFile
	value ast.Expr
}

// reasonSource finds the reasons that the code gives. It follows constants, the parameters of
// functions that make an error from a reason, and the results of functions that choose a reason.
type reasonSource struct {
	t         *testing.T
	files     []*goFile
	constants map[string]constant        // by dir.name
	functions map[string][]*ast.FuncDecl // by dir.name
	helpers   map[string]map[int]bool    // by dir.name of a function, the positions of its parameters that are reasons
	chosen    map[string]bool            // by dir.name, the functions whose results are reasons
	given     map[string]string          // by reason, a file that gives it
	skipped   map[string]bool            // the rows of notFollowed that the code has
}

// reasonsOfCode maps each reason that the code below internal/ gives in a machine.Error or a
// google.rpc.ErrorInfo to one place that gives it. A way to name a reason that it cannot follow fails the test.
func reasonsOfCode(t *testing.T) map[string]string {
	t.Helper()
	s := &reasonSource{
		t: t, constants: map[string]constant{}, functions: map[string][]*ast.FuncDecl{},
		helpers: map[string]map[int]bool{}, chosen: map[string]bool{}, given: map[string]string{}, skipped: map[string]bool{},
	}
	s.parse("../../internal")
	for _, file := range s.files {
		s.declared(file)
	}
	for before := -1; before != len(s.given)+s.followed(); {
		before = len(s.given) + s.followed()
		for _, file := range s.files {
			s.errorsOf(file)
		}
		if t.Failed() {
			t.FailNow() // once is enough
		}
	}
	for row := range notFollowed {
		if !s.skipped[row] {
			t.Errorf("notFollowed has %q, which no code has", row)
		}
	}
	return s.given
}

// followed counts what is known beside the reasons themselves; when it stays the same, all is found.
func (s *reasonSource) followed() int {
	n := len(s.chosen)
	for _, at := range s.helpers {
		n += len(at)
	}
	return n
}

// parse reads the files of the product, without tests and what only tests use.
func (s *reasonSource) parse(top string) {
	s.t.Helper()
	const module = "github.com/pawl-dev/pawl/internal/"
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(top, filepath.Dir(name))
		below = filepath.ToSlash(below)
		file := &goFile{dir: below, at: path.Join(below, filepath.Base(name)), tree: tree, imports: map[string]string{}}
		for _, spec := range tree.Imports {
			of, _ := strconv.Unquote(spec.Path.Value)
			if local, ok := strings.CutPrefix(of, module); ok {
				as := path.Base(local)
				if spec.Name != nil {
					as = spec.Name.Name
				}
				file.imports[as] = local
			}
		}
		s.files = append(s.files, file)
		return err
	})
	if err != nil || len(s.files) < 100 {
		s.t.Fatalf("%d files below %s, error %v", len(s.files), top, err)
	}
}

// declared notes a file's constants and functions.
func (s *reasonSource) declared(file *goFile) {
	ast.Inspect(file.tree, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			key := file.dir + "." + node.Name.Name
			s.functions[key] = append(s.functions[key], node)
			return false
		case *ast.ValueSpec:
			for i, name := range node.Names {
				if i < len(node.Values) {
					s.constants[file.dir+"."+name.Name] = constant{file, node.Values[i]}
				}
			}
		}
		return true
	})
}

// errorsOf notes the reasons of the errors that a file makes, itself or through a helper.
func (s *reasonSource) errorsOf(file *goFile) {
	for _, decl := range file.tree.Decls {
		enclosing, _ := decl.(*ast.FuncDecl)
		ast.Inspect(decl, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CompositeLit:
				s.reasonOf(file, enclosing, node)
			case *ast.CallExpr:
				at := s.helpers[s.name(file, node.Fun)]
				if ident, ok := node.Fun.(*ast.Ident); ok && enclosing != nil && at == nil {
					at = s.helpers[file.dir+"."+enclosing.Name.Name+"."+ident.Name]
				}
				for i := range at {
					if i < len(node.Args) {
						s.follow(file, enclosing, node.Args[i])
					}
				}
			case *ast.AssignStmt:
				for i, to := range node.Lhs {
					field, ok := to.(*ast.SelectorExpr)
					if ok && len(node.Lhs) == len(node.Rhs) && strings.EqualFold(field.Sel.Name, "reason") && reasonText.MatchString(literal(node.Rhs[i])) {
						s.follow(file, enclosing, node.Rhs[i])
					}
				}
			}
			return true
		})
	}
}

// isError reports whether a type is one of those whose reason a caller gets.
func isError(file *goFile, x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "Error" && (file.dir == "runtime/machine" || file.dir == "a2a") || x.Name == "Denied" && file.dir == "policy"
	case *ast.SelectorExpr:
		of, ok := x.X.(*ast.Ident)
		return ok && (file.imports[of.Name] == "runtime/machine" && x.Sel.Name == "Error" || of.Name == "errdetails" && x.Sel.Name == "ErrorInfo")
	case *ast.StarExpr:
		return isError(file, x.X)
	}
	return false
}

// reasonOf notes the reasons of a composite literal that is an error, a list of them or a map of them.
func (s *reasonSource) reasonOf(file *goFile, enclosing *ast.FuncDecl, made *ast.CompositeLit) {
	var elements ast.Expr
	switch of := made.Type.(type) {
	case *ast.ArrayType:
		elements = of.Elt
	case *ast.MapType:
		elements = of.Value
	}
	for _, element := range made.Elts {
		field, named := element.(*ast.KeyValueExpr)
		switch {
		case elements != nil && isError(file, elements):
			if named {
				element = field.Value
			}
			if one, ok := element.(*ast.CompositeLit); ok && one.Type == nil {
				s.reasonOf(file, enclosing, &ast.CompositeLit{Type: elements, Elts: one.Elts})
			}
		case !isError(file, made.Type):
		case !named:
			s.t.Errorf("internal/%s makes an error without the names of its fields", file.at)
		default:
			if name, ok := field.Key.(*ast.Ident); ok && strings.EqualFold(name.Name, "reason") {
				s.follow(file, enclosing, field.Value)
			}
		}
	}
}

// name is dir.name of a function, a constant or a field that an expression names.
func (s *reasonSource) name(file *goFile, x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return file.dir + "." + x.Name
	case *ast.SelectorExpr:
		if of, ok := x.X.(*ast.Ident); ok && file.imports[of.Name] != "" {
			return file.imports[of.Name] + "." + x.Sel.Name
		}
		return file.dir + "." + x.Sel.Name
	}
	return ""
}

// follow notes the reasons that an expression can have.
func (s *reasonSource) follow(file *goFile, enclosing *ast.FuncDecl, x ast.Expr) {
	if text, ok := x.(*ast.BasicLit); ok {
		s.given[literal(text)] = "internal/" + file.at
		return
	}
	if notFollowed[file.at+" "+textOf(x)] != "" {
		s.skipped[file.at+" "+textOf(x)] = true
		return
	}
	if call, ok := x.(*ast.CallExpr); ok && len(s.functions[s.name(file, call.Fun)]) > 0 {
		s.results(file, s.name(file, call.Fun))
		return
	}
	if values := s.local(file, enclosing, x); len(values) > 0 {
		for _, value := range values {
			s.follow(file, enclosing, value)
		}
		return
	}
	if ident, ok := x.(*ast.Ident); ok && s.ofCallers(file, enclosing, ident.Name) {
		return
	}
	if of, ok := s.constants[s.name(file, x)]; ok {
		s.follow(of.file, nil, of.value)
		return
	}
	s.t.Errorf("internal/%s gives a reason by %s: teach reasonsOfCode to follow it", file.at, textOf(x))
}

// ofCallers reports whether a name is a parameter of the enclosing function, or of a function in it,
// and notes that its callers give the reason.
func (s *reasonSource) ofCallers(file *goFile, enclosing *ast.FuncDecl, name string) (found bool) {
	if enclosing == nil {
		return false
	}
	note := func(of string, parameters *ast.FuncType) {
		if at := parameter(parameters, name); at >= 0 {
			if s.helpers[of] == nil {
				s.helpers[of] = map[int]bool{}
			}
			s.helpers[of][at], found = true, true
		}
	}
	own := file.dir + "." + enclosing.Name.Name
	note(own, enclosing.Type)
	ast.Inspect(enclosing, func(node ast.Node) bool {
		if set, ok := node.(*ast.AssignStmt); ok && len(set.Rhs) == 1 {
			if made, ok := set.Rhs[0].(*ast.FuncLit); ok {
				note(own+"."+textOf(set.Lhs[0]), made.Type)
			}
		}
		return true
	})
	return found
}

// local is what the enclosing function assigns to a variable, or to a field of the rows over which it ranges.
func (s *reasonSource) local(file *goFile, enclosing *ast.FuncDecl, x ast.Expr) (values []ast.Expr) {
	if enclosing == nil {
		return nil
	}
	ast.Inspect(enclosing, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.AssignStmt:
			for i, to := range node.Lhs {
				if ident, ok := to.(*ast.Ident); ok && len(node.Lhs) == len(node.Rhs) && textOf(x) == ident.Name && literal(node.Rhs[i]) != "" {
					values = append(values, node.Rhs[i])
				}
			}
		case *ast.RangeStmt:
			field, ok := x.(*ast.SelectorExpr)
			rows, isTable := node.X.(*ast.CompositeLit)
			if !ok || !isTable || node.Value == nil || textOf(node.Value) != textOf(field.X) {
				return true
			}
			values = append(values, column(rows, field.Sel.Name)...)
		}
		return true
	})
	return values
}

// column are the values of a field in a table of anonymous structs.
func column(rows *ast.CompositeLit, name string) (values []ast.Expr) {
	list, ok := rows.Type.(*ast.ArrayType)
	if !ok {
		return nil
	}
	row, ok := list.Elt.(*ast.StructType)
	if !ok {
		return nil
	}
	at := position(row.Fields, name)
	for _, element := range rows.Elts {
		if one, ok := element.(*ast.CompositeLit); ok && at >= 0 && at < len(one.Elts) {
			values = append(values, one.Elts[at])
		}
	}
	return values
}

// results notes what a function that chooses a reason returns.
func (s *reasonSource) results(file *goFile, key string) {
	if s.chosen[key] {
		return
	}
	s.chosen[key] = true
	for _, of := range s.functions[key] {
		ast.Inspect(of, func(node ast.Node) bool {
			if back, ok := node.(*ast.ReturnStmt); ok && len(back.Results) > 0 {
				s.follow(file, of, back.Results[0])
			}
			return true
		})
	}
}

// parameter is the position of a function's parameter, or -1.
func parameter(of *ast.FuncType, name string) int { return position(of.Params, name) }

// position is the place of a name in a list of parameters or fields, or -1.
func position(of *ast.FieldList, name string) int {
	at := 0
	for _, field := range of.List {
		for _, ident := range field.Names {
			if ident.Name == name {
				return at
			}
			at++
		}
	}
	return -1
}

// textOf is a short text of an expression: names and selectors.
func textOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return textOf(x.X) + "." + x.Sel.Name
	case *ast.CallExpr:
		return textOf(x.Fun) + "()"
	}
	return "?"
}
