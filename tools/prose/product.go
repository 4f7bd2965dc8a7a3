package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"unicode"
)

//go:embed names.txt
var nameList string

var (
	nameReplacements, _ = readWords(nameList)
	generated           = regexp.MustCompile(`(?m)^(?://|#|/\*) ?(?:Code generated|.*DO NOT EDIT)`)
	declared            = map[string]*regexp.Regexp{
		".py": regexp.MustCompile(`^\s*(?:async\s+)?(?:def|class)\s+(\w+)|^\s*(?:self\.)?(\w+)\s*(?::[^=]+)?=[^=]`),
		".ts": regexp.MustCompile(`^\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:function\*?|class|interface|type|enum|const|let|var)\s+(\w+)` +
			`|^\s*(?:(?:public|private|protected|readonly|static|async)\s+)*#?(\w+)\??\s*(?:\([^)]*\)[^;]*\{|:\s*\S.*[;,])\s*$`),
	}
)

// isProduct reports whether a file is code of the product that people wrote, and not a test.
func isProduct(name, text string) bool {
	inProduct := strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "clients/")
	if !inProduct || language(name) == "" || strings.Contains(name, "/testdata/") {
		return false
	}
	base := path.Base(name)
	isTest := strings.HasSuffix(base, "_test.go") || strings.Contains(base, ".test.") || strings.Contains(base, ".spec.") ||
		strings.HasPrefix(base, "test_") || strings.Contains(name, "/tests/") || strings.Contains(name, "/test/")
	return !isTest && !generated.MatchString(text)
}

// isTestCode reports whether a file is a test of the product, or code of the benchmarks or of test/. Only its comments
// and log messages are checked.
func isTestCode(name, text string) bool {
	inTests := strings.HasPrefix(name, "bench/") || strings.HasPrefix(name, "test/") ||
		strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "clients/")
	return inTests && language(name) != "" && !isProduct(name, text) && !strings.Contains(name, "/testdata/") && !generated.MatchString(text)
}

// checkComments returns the findings in the comments and the log messages of a source file.
func checkComments(name, text string) []finding {
	var all []finding
	documented := docstrings(name, text)
	for i, line := range strings.Split(text, "\n") {
		all = append(all, checkLine(name, i+1, spokenIn(name, line, documented[i+1]))...)
	}
	return all
}

// language returns the ending of a source file: ".go", ".py" or ".ts". For other files it returns "".
func language(name string) string {
	switch ending := path.Ext(name); ending {
	case ".go", ".py", ".ts":
		return ending
	case ".tsx":
		return ".ts"
	default:
		return ""
	}
}

// checkProduct returns the findings in the comments, the log messages, the texts of errors and the
// declared names of a source file.
func checkProduct(name, text string) []finding {
	var all []finding
	documented := docstrings(name, text)
	goNames, errorTexts := goNames(name, text), errorTexts(name, text)
	for i, line := range strings.Split(text, "\n") {
		if said := spokenIn(name, line, documented[i+1]); said != "" {
			all = append(all, checkLine(name, i+1, said)...)
		}
		for _, message := range errorTexts[i+1] {
			all = append(all, checkLine(name, i+1, message)...)
		}
		names := goNames[i+1]
		if pattern := declared[language(name)]; pattern != nil && !documented[i+1] {
			if m := pattern.FindStringSubmatch(line); m != nil {
				names = append(names, m[1]+m[2])
			}
		}
		for _, n := range names {
			all = append(all, checkName(name, i+1, n)...)
		}
	}
	return all
}

// checkName returns the words of a declared name that names do not contain.
func checkName(file string, line int, name string) []finding {
	var all []finding
	for _, word := range wordsOf(name) {
		if instead, ok := nameReplacements[word]; ok {
			all = append(all, finding{file, line, fmt.Sprintf("%q in the name %s: use %s", word, name, instead)})
		}
	}
	return all
}

// wordsOf splits a name at underscores and capitals, and returns its words in lower case.
func wordsOf(name string) []string {
	var b strings.Builder
	previous := '_'
	for _, r := range name {
		if unicode.IsUpper(r) && !unicode.IsUpper(previous) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) })
}

// goNames returns the names that a Go file declares, by line. For other files it returns none.
func goNames(name, text string) map[int][]string {
	if language(name) != ".go" {
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler reports it
	}
	all := map[int][]string{}
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			line := set.Position(id.Pos()).Line
			all[line] = append(all[line], id.Name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					if id, ok := left.(*ast.Ident); ok {
						add(id)
					}
				}
			}
		}
		return true
	})
	return all
}

// docstrings returns the lines of a Python file that belong to a text of three quotes.
func docstrings(name, text string) map[int]bool {
	if language(name) != ".py" {
		return nil
	}
	all, inside := map[int]bool{}, false
	for i, line := range strings.Split(text, "\n") {
		quotes := strings.Count(line, `"""`)
		if inside || quotes > 0 {
			all[i+1] = true
		}
		if quotes%2 == 1 {
			inside = !inside
		}
	}
	return all
}
