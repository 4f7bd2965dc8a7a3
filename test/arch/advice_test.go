package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// adviceRow is a row of "What to do with an error".
type adviceRow struct{ code, reasons, do string }

var (
	adviceLine = regexp.MustCompile(`(?m)^\| ([A-Za-z_]+) \| ([^|]+) \| (repeat|reconnect|give up) \| [^|]+ \|$`)
	errorLine  = regexp.MustCompile("(?m)^\\| ([A-Z_, ]*?) ?\\| (`[^|]*`) \\|")
	ticked     = regexp.MustCompile("`([A-Z_0-9]+)`")
	refusal    = regexp.MustCompile(`Code:\s*machine\.Code(\w+),\s*Reason:\s*"([A-Z_]+)"`)
)

// TestAdviceIsWhole: the table of docs/reference/errors.md that says what to do with an error ends with a row for
// everything, names no reason that is not documented under its code, and has a row for each code
// that stands for a broken connection.
func TestAdviceIsWhole(t *testing.T) {
	t.Parallel()
	rows, documented := advice(t), documentedReasons(t)
	if last := rows[len(rows)-1]; last.code != "any" || !strings.HasPrefix(last.reasons, "any") || last.do != "give up" {
		t.Errorf("the last row is %+v, want one for all codes and reasons that says give up", last)
	}
	for _, row := range rows {
		for _, reason := range ticked.FindAllStringSubmatch(row.reasons, -1) {
			if !slices.Contains(documented[reason[1]], row.code) {
				t.Errorf("the row of %s names %s, which the table of errors has under %q", row.code, reason[1], documented[reason[1]])
			}
		}
	}
	for code, do := range map[string]string{
		"UNAVAILABLE": "reconnect", "UNKNOWN": "reconnect", "INTERNAL": "reconnect", "CANCELLED": "reconnect",
		"DEADLINE_EXCEEDED": "repeat", "RESOURCE_EXHAUSTED": "repeat",
	} {
		if !slices.ContainsFunc(rows, func(row adviceRow) bool { return row.code == code && row.do == do }) {
			t.Errorf("no row says to %s at %s", do, code)
		}
	}
}

// TestReasonsHaveTheirCodes: a reason that docs/reference/errors.md has is given with the code under which it
// stands there, and each code of the machine is a code of that table.
func TestReasonsHaveTheirCodes(t *testing.T) {
	t.Parallel()
	documented, codesOf := documentedReasons(t), map[string]bool{}
	for _, list := range documented {
		for _, code := range list {
			codesOf[code] = true
		}
	}
	byName := map[string]codes.Code{}
	for code, to := range apierror.Codes {
		byName[codeName(code)] = to
		if !codesOf[upper(to)] {
			t.Errorf("docs/reference/errors.md has no errors of the code %s", upper(to))
		}
	}
	count := 0
	for file, source := range sourcesBelow(t, "../../internal") {
		for _, found := range refusal.FindAllStringSubmatch(source, -1) {
			count++
			code, reason := upper(byName[found[1]]), found[2]
			if in := documented[reason]; in != nil && !slices.Contains(in, code) {
				t.Errorf("%s gives %s with %s, docs/reference/errors.md has it under %q", file, reason, code, in)
			}
		}
	}
	if count < 100 {
		t.Fatalf("only %d refusals found", count)
	}
}

func upper(code codes.Code) string {
	if code == codes.Canceled {
		return "CANCELLED"
	}
	return strings.ToUpper(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(code.String(), "${1}_$2"))
}

// codeName is how the source names a code, without its prefix.
func codeName(code machine.Code) string { return apierror.Codes[code].String() }

// advice reads the table off the page.
func advice(t *testing.T) []adviceRow {
	t.Helper()
	_, section, ok := strings.Cut(apiPage(t), "## What to do with an error\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []adviceRow
	for _, found := range adviceLine.FindAllStringSubmatch(section, -1) {
		rows = append(rows, adviceRow{found[1], found[2], found[3]})
	}
	if lines := strings.Count(section, "\n|") - 2; !ok || len(rows) < 10 || len(rows) != lines {
		t.Fatalf("%d of %d rows can be read", len(rows), lines)
	}
	return rows
}

// documentedReasons maps each reason of the table of errors to its codes.
func documentedReasons(t *testing.T) map[string][]string {
	t.Helper()
	_, section, _ := strings.Cut(apiPage(t), "\n## Reasons\n")
	section, _, _ = strings.Cut(section, "## What to do with an error\n")
	reasons, codes := map[string][]string{}, []string(nil)
	for _, found := range errorLine.FindAllStringSubmatch(section, -1) {
		if found[1] != "" {
			codes = strings.Split(found[1], ", ")
		}
		for _, reason := range ticked.FindAllStringSubmatch(found[2], -1) {
			reasons[reason[1]] = append(reasons[reason[1]], codes...)
		}
	}
	if len(reasons) < 100 {
		t.Fatalf("only %d documented reasons found", len(reasons))
	}
	return reasons
}

func apiPage(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// sourcesBelow are the Go files of a directory without its tests, by their paths.
func sourcesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	sources := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(filepath.Join(dir, name))
		sources[name] = string(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}
