package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// troubleshooting is the page with a row for each warning and error of the log.
const troubleshooting = "../../docs/operations/troubleshooting.md"

// logAttributes is the heading of the page's table of attributes.
const logAttributes = "\n## Log attributes\n"

// logMethods maps a method of a logger to the position of its message.
var logMethods = map[string]int{"Warn": 0, "Error": 0, "WarnContext": 1, "ErrorContext": 1, "Log": 2}

// TestTroubleshootingPage: docs/operations/troubleshooting.md has a row for each message that the
// sidecar logs as a warning or an error, and no other row.
func TestTroubleshootingPage(t *testing.T) {
	t.Parallel()
	logged := map[string]string{}
	for _, top := range []string{"../../internal", "../../cmd/sidecar", "../../clients/go"} {
		logMessages(t, top, logged)
	}
	raw, err := os.ReadFile(troubleshooting)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	messages, _, _ := strings.Cut(string(raw), logAttributes)
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(messages, -1) {
		if rows[row[1]] {
			t.Errorf("%s: two rows for %q", troubleshooting, row[1])
		}
		rows[row[1]] = true
	}
	if len(logged) < 40 {
		t.Fatalf("only %d messages found in the code", len(logged))
	}
	for msg, at := range logged {
		if !rows[msg] {
			t.Errorf("%s logs %q: add a row with its meaning and an action to docs/operations/troubleshooting.md", at, msg)
		}
	}
	for msg := range rows {
		if logged[msg] == "" {
			t.Errorf("docs/operations/troubleshooting.md has a row for %q, which no code logs as a warning or an error", msg)
		}
	}
}

// logMessages adds the messages of the product code below top, each with its position.
func logMessages(t *testing.T, top string, logged map[string]string) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// Not product code: doubles, simulator, load generator, demo.
		if entry.IsDir() && slices.Contains([]string{"archtest", "bench", "demo", "mutants", "sim", "testdata", "testkit", "trust"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			msg, isLog := logMessage(path, call)
			at := files.Position(call.Pos()).String()
			switch {
			case isLog && msg == "":
				t.Errorf("%s logs a message that is no literal: give what differs as an attribute", at)
			case isLog:
				logged[msg] = at
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// logMessage is the message of a call that logs a warning or an error: the literal, or the one that
// a concatenation begins with. "": it has none.
func logMessage(path string, call *ast.CallExpr) (msg string, isLog bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return "", false
	}
	// What the store of a database says of leases and commits reaches the log by a function, as a warning.
	if (method.Sel.Name == "logEvent" || method.Sel.Name == "OnEvent") && strings.Contains(filepath.ToSlash(path), "/store/") {
		msg = literal(call.Args[0])
		return msg, msg != ""
	}
	at, ok := logMethods[method.Sel.Name]
	if !ok || !isLogger(method.X) || len(call.Args) <= at {
		return "", false
	}
	if _, ok := call.Args[at].(*ast.Ident); ok {
		return "", false // a helper: the calls of it are not warnings, or are found above
	}
	return literal(call.Args[at]), true
}

// isLogger reports whether an expression is called log or logger.
func isLogger(x ast.Expr) bool {
	name := ""
	switch x := x.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	return strings.EqualFold(name, "log") || strings.EqualFold(name, "logger")
}

func literal(x ast.Expr) string {
	if sum, ok := x.(*ast.BinaryExpr); ok {
		return literal(sum.X)
	}
	text, ok := x.(*ast.BasicLit)
	if !ok || text.Kind != token.STRING {
		return ""
	}
	msg, _ := strconv.Unquote(text.Value)
	return msg
}
