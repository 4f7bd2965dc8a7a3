package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var (
	limitFlag  = regexp.MustCompile("`--(limits-[a-z-]+)`")
	limitValue = regexp.MustCompile("^ *([0-9]|no bound)")
)

// TestLimitsAreTheDocuments: the defaults that the pages tell are those of the flags,
// and no limit is told nowhere.
func TestLimitsAreTheDocuments(t *testing.T) {
	t.Parallel()
	told := map[string]bool{}
	for _, page := range []string{"reference/limits.md", "reference/configuration.md"} {
		raw, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			for flag, value := range limitsOf(t, line) {
				told[flag] = true
				f := flagSet(t).Lookup(flag)
				if f == nil || plain(t, f.DefValue) != plain(t, value) {
					t.Errorf("%s says %q of --%s, which is %v", page, value, flag, f)
				}
			}
		}
	}
	flagSet(t).VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "limits-") && !told[f.Name] {
			t.Errorf("no page tells --%s", f.Name)
		}
	})
}

// limitsOf reads a line of a table: flags in one of its cells, as many values in
// another one.
func limitsOf(t *testing.T, line string) map[string]string {
	t.Helper()
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	if len(cells) != 3 || !strings.HasPrefix(line, "|") {
		return nil
	}
	flags, values := cells[2], cells[1]
	if limitFlag.MatchString(values) {
		flags, values = values, flags
	}
	found := limitFlag.FindAllStringSubmatch(flags, -1)
	if len(found) == 0 || !limitValue.MatchString(values) {
		return nil
	}
	parts := strings.FieldsFunc(values, func(r rune) bool { return r == ';' || r == ',' })
	if len(parts) != len(found) {
		t.Fatalf("%d flags, %d values: %s", len(found), len(parts), line)
	}
	limits := map[string]string{}
	for i := range found {
		limits[found[i][1]] = strings.TrimSpace(parts[i])
	}
	return limits
}

// plain is a number or a size in its shortest form.
func plain(t *testing.T, value string) string {
	t.Helper()
	if value == "no bound" {
		return "0"
	}
	size, err := ParseBytes(strings.ReplaceAll(value, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return size.String()
}
