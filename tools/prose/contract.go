package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

//go:embed contract.txt
var contractList string

var (
	contractReplacements, contractWords = readWords(contractList)
	// raised finds the first argument of an error that Python raises or TypeScript throws: adjacent literals.
	raised = regexp.MustCompile(`\b(?:raise|throw\s+new)\s+[\w.]+\(\s*(` + literal + `(?:[\s+]*` + literal + `)*)`)
	quoted = regexp.MustCompile(literal)
)

// literal is an expression for a literal of Python or TypeScript.
const literal = `[frb]{0,2}(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\x60(?:[^\x60\\]|\\[\s\S])*\x60)`

// recordedTexts are the texts of errors that records of runs contain. They never change, because a replay of
// old inputs must make the same records.
var recordedTexts = map[string]bool{"nobody knows whether the attempt happened": true}

// isContract reports whether a file is part of the public contract, whose comments are the reference of the API for
// each language, or of the stored format.
func isContract(name string) bool {
	return (strings.HasPrefix(name, "proto/") || strings.HasPrefix(name, "internal/")) && strings.HasSuffix(name, ".proto")
}

// checkContract returns the findings in the comments of a file of the contract.
func checkContract(name, text string) []finding {
	var all []finding
	for i, line := range strings.Split(text, "\n") {
		comment := spokenIn(name, line, false)
		all = append(all, checkLine(name, i+1, comment)...)
		for _, word := range contractWords.FindAllString(comment, -1) {
			all = append(all, finding{name, i + 1, fmt.Sprintf("%q: write %s", word, contractReplacements[strings.ToLower(word)])})
		}
	}
	return all
}

// errorTexts returns the texts of the errors that a line of a source file makes, by line. In Go these are
// the literals in calls of errors.New and fmt.Errorf and in fields with the name Message.
func errorTexts(name, text string) map[int][]string {
	all := map[int][]string{}
	if language(name) != ".go" {
		for _, m := range raised.FindAllStringSubmatchIndex(text, -1) {
			for _, at := range quoted.FindAllStringIndex(text[m[2]:m[3]], -1) {
				begin, end := m[2]+at[0], m[2]+at[1]
				line := 1 + strings.Count(text[:begin], "\n")
				all[line] = append(all[line], text[begin:end])
			}
		}
		return all
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler reports it
	}
	literals := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if value, err := strconv.Unquote(lit.Value); err == nil && !recordedTexts[value] {
					line := set.Position(lit.Pos()).Line
					all[line] = append(all[line], codeSpan.ReplaceAllString(value, "``"))
				}
			}
			return true
		})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isErrorCall(n.Fun) {
				literals(n)
				return false
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Message" {
				literals(n.Value)
				return false
			}
		}
		return true
	})
	return all
}

// isErrorCall reports whether a function is errors.New or fmt.Errorf.
func isErrorCall(function ast.Expr) bool {
	selected, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := selected.X.(*ast.Ident)
	return ok && (from.Name == "errors" && selected.Sel.Name == "New" || from.Name == "fmt" && selected.Sel.Name == "Errorf")
}
