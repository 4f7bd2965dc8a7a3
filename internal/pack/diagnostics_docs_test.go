package pack

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pageRow is a row of docs/reference/diagnostics.md.
type pageRow struct {
	code, severity, cause, mend string
	// shown is what shows the finding: changes of the page's pack, or one document.
	shown []string
}

var (
	pageLine  = regexp.MustCompile("^\\| `(PP[A-Z0-9.a-z-]+)` \\| ([a-z, ]+) \\| (.*) \\|(.*)\\|$")
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	aChange   = regexp.MustCompile(`^[a-z_]+(\.[\w-]+)* = `)
	codeInUse = regexp.MustCompile(`"(PP[A-Z0-9]*-[A-Z0-9]+)"`)
)

// diagnosticsPage reads the rows of the page and the pack that they change.
func diagnosticsPage(t *testing.T) (rows []pageRow, doc string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/reference/diagnostics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), "```json\n")
	doc, _, _ = strings.Cut(after, "```")
	for line := range strings.SplitSeq(string(raw), "\n") {
		m := pageLine.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "| `PP") && !strings.Contains(line, "nnnn") && !strings.Contains(line, "-N`") && !strings.Contains(line, "KEYWORD") {
				t.Errorf("not a row of five columns: %s", line)
			}
			continue
		}
		cause, mend, _ := strings.Cut(m[3], " | ")
		row := pageRow{code: m[1], severity: m[2], cause: cause, mend: mend}
		for _, span := range codeSpan.FindAllStringSubmatch(m[4], -1) {
			row.shown = append(row.shown, span[1])
		}
		rows = append(rows, row)
	}
	return rows, doc
}

// TestDiagnosticsPage: docs/reference/diagnostics.md has every code once, with the severities that it can
// have, and no other; what it shows is found.
func TestDiagnosticsPage(t *testing.T) {
	t.Parallel()
	rows, doc := diagnosticsPage(t)
	want, found := codesOfTheProgram(t), map[string]bool{}
	for _, row := range rows {
		severity, known := want[row.code]
		switch {
		case found[row.code]:
			t.Errorf("%s has two rows", row.code)
		case !known:
			t.Errorf("%s is on the page, and nothing reports it", row.code)
		case severity != row.severity:
			t.Errorf("%s is %q on the page and %q in the program", row.code, row.severity, severity)
		}
		if strings.TrimSpace(row.cause) == "" || strings.TrimSpace(row.mend) == "" {
			t.Errorf("%s has no cause or no mend", row.code)
		}
		found[row.code] = true
		checkFinding(t, row, doc)
	}
	for code := range want {
		if !found[code] {
			t.Errorf("docs/reference/diagnostics.md has no row for %s", code)
		}
	}
}

// codesOfTheProgram are all codes with their severities, from the list of rules, from what the
// sources name and from the keywords of the schema.
func codesOfTheProgram(t *testing.T) map[string]string {
	t.Helper()
	codes := map[string]string{schemaPrefix + "published": "warning", schemaPrefix + "schema": "error"}
	for _, r := range Rules() {
		codes[r.Code] = strings.Join(slices.DeleteFunc([]string{map[bool]string{true: "error"}[r.Error], map[bool]string{true: "warning"}[r.Warning]},
			func(s string) bool { return s == "" }), ", ")
	}
	for keyword := range maps.Keys(keywordsOf(t)) {
		codes[schemaPrefix+keyword] = map[bool]string{true: "warning", false: "error"}[keyword == "format"]
	}
	for _, pattern := range []string{"*.go", "source/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range codeInUse.FindAllStringSubmatch(string(raw), -1) {
				if !strings.HasSuffix(file, "_test.go") && codes[m[1]] == "" {
					t.Errorf("%s uses %s, which Rules does not list", file, m[1])
				}
			}
		}
	}
	return codes
}

// keywordsOf are the keywords that a fault of the schema can have for its code; those of x_pawl
// have a rule of their own.
func keywordsOf(t *testing.T) map[string]bool {
	t.Helper()
	keywords := map[string]bool{}
	for _, file := range []string{newestFile, unionFile} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root := parse1(t, string(raw)).(map[string]any)
		if defs, ok := root["$defs"].(map[string]any); ok {
			maps.DeleteFunc(defs, func(name string, _ any) bool { return strings.HasPrefix(name, "XPawl") })
		}
		addKeywords(root, keywords)
	}
	for _, structural := range []string{"$schema", "$id", "$defs", "$ref", "$comment", "description", "title", "version", "examples", "default", "deprecated", sinceKey, "properties", "items", "allOf", "if", "then", "else"} {
		delete(keywords, structural)
	}
	return keywords
}

func addKeywords(schema any, keywords map[string]bool) {
	switch schema := schema.(type) {
	case []any:
		for _, s := range schema {
			addKeywords(s, keywords)
		}
	case map[string]any:
		for keyword, value := range schema {
			keywords[keyword] = true
			switch keyword {
			case "properties", "$defs":
				for s := range maps.Values(value.(map[string]any)) {
					addKeywords(s, keywords)
				}
			case "default", "enum", "const", "examples":
			default:
				addKeywords(value, keywords)
			}
		}
	}
}

// checkFinding checks that what a row shows has the finding of the row.
func checkFinding(t *testing.T, row pageRow, doc string) {
	t.Helper()
	if len(row.shown) == 0 {
		return
	}
	src := row.shown[0]
	if aChange.MatchString(src) {
		src = string(changedFrom(t, doc, strings.Join(row.shown, "\n")))
	} else if len(row.shown) > 1 {
		t.Errorf("%s shows several documents", row.code)
	}
	_, ds, err := Load([]byte(src), Options{})
	if err != nil {
		t.Errorf("%s: %v", row.code, err)
	}
	if !slices.ContainsFunc(ds, func(d Diagnostic) bool {
		return d.Code == row.code && strings.Contains(row.severity, string(d.Severity))
	}) {
		t.Errorf("%s is not shown by %q:\n%s", row.code, row.shown, render(ds))
	}
}

// TestDiagnosticsPageHasTheBase: the pack of the page is without findings itself.
func TestDiagnosticsPageHasTheBase(t *testing.T) {
	t.Parallel()
	_, doc := diagnosticsPage(t)
	if p, ds, err := Load([]byte(doc), Options{}); p == nil || err != nil || len(ds) > 0 {
		t.Errorf("%v\n%s", err, render(ds))
	}
	if strings.TrimSpace(doc) != strings.TrimSpace(base) {
		t.Errorf("the page's pack is not that of the tests: %.80s", doc)
	}
}

// TestShownPacksWarnOfNothing: the packs of the examples, which people copy.
func TestShownPacksWarnOfNothing(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/*.pack.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, ds, err := Load(raw, Options{})
		if p == nil || err != nil || len(ds) > 0 {
			t.Errorf("%s: %v\n%s", file, err, render(ds))
		}
	}
}
