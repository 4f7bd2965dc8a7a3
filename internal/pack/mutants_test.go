package pack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// oracleRules are the rules about which mutants.txt says something; the oracle does not know the others.
var oracleRules = []string{
	"PP0012-1", "PP0012-3", "PP0013-5", "PP0014-3", "PP0014-4", "PP0015-3", "PP0016-2", "PP0016-4", "PP0016-5", "PP0016-6", "PP0016-7", "PP0017-1", "PP0017-2",
	"PP0017-4", "PP0017-5",
}

// TestMutants: packs with one value changed get the verdict that an independent implementation of the format's rules
// gave them. A line is "FILE POINTER = VALUE -> VERDICT": - removes the value, the pointer's - appends; "schema" is a fault of
// structure, ! marks an error.
func TestMutants(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/versions/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		file, rest, _ := strings.Cut(line, " ")
		at, rest, _ := strings.Cut(rest, " = ")
		split := strings.LastIndex(rest, " -> ")
		value, want := rest[:split], rest[split+len(" -> "):]
		src, err := os.ReadFile(filepath.Join("testdata/versions", file))
		if err != nil {
			t.Fatal(err)
		}
		root, fault := source.Read(src, source.DefaultLimits(), func(source.DuplicateName) {})
		if fault != nil {
			t.Fatal(fault)
		}
		mutant, err := json.Marshal(mutated(t, root.Plain(), source.PointerTokens(at), value))
		if err != nil {
			t.Fatal(err)
		}
		p, found, err := Load(mutant, Options{})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines++
		if want == "schema" {
			if p != nil {
				t.Errorf("%s: accepted\n%s", line, render(found))
			}
			continue
		}
		if got := verdictByOracle(found); got != want {
			t.Errorf("%s\ngot %s\n%s", line, got, render(found))
		}
	}
	if lines < 100 {
		t.Errorf("%d mutants", lines)
	}
}

func verdictByOracle(found []Diagnostic) string {
	var codes []string
	for _, d := range found {
		code := d.Code
		if code == "PP0016-10" {
			code = "PP0013-5" // the oracle has one rule for both
		}
		if !slices.Contains(oracleRules, code) {
			continue
		}
		if d.Severity == SeverityError {
			code += "!"
		}
		codes = append(codes, code)
	}
	if len(codes) == 0 {
		return "none"
	}
	slices.Sort(codes)
	return strings.Join(slices.Compact(codes), " ")
}

// mutated changes one value of a document.
func mutated(t *testing.T, node any, at []string, value string) any {
	t.Helper()
	var v any
	if value != "-" {
		v = parse1(t, value)
	}
	if len(at) == 0 {
		return v
	}
	switch node := node.(type) {
	case map[string]any:
		if len(at) == 1 && value == "-" {
			delete(node, at[0])
			return node
		}
		node[at[0]] = mutated(t, node[at[0]], at[1:], value)
		return node
	case []any:
		if at[0] == "-" {
			return append(node, v)
		}
		i, err := strconv.Atoi(at[0])
		if err != nil || i >= len(node) {
			t.Fatalf("no element %s", at[0])
		}
		if len(at) == 1 && value == "-" {
			return slices.Delete(node, i, i+1)
		}
		node[i] = mutated(t, node[i], at[1:], value)
		return node
	}
	t.Fatalf("%v has no %v", node, at)
	return nil
}
