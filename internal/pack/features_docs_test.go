package pack

import (
	"os"
	"strings"
	"testing"
)

// TestFeatureTableInDocs: the table of docs/reference/pack-format.md has each property of the format once, as the code
// treats it; -rewrite renews it.
func TestFeatureTableInDocs(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../docs/reference/pack-format.md", "<!-- features:begin", "<!-- features:end -->"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	marker, rest, closed := strings.Cut(rest, "-->\n")
	got, tail, ended := strings.Cut(rest, end)
	if !ok || !closed || !ended {
		t.Fatalf("%s has no %q and %q", path, begin, end)
	}
	want := featureTable(fieldsOf(t, newestFile))
	if got == want {
		return
	}
	if !*rewrite {
		t.Fatalf("the feature table of %s is not that of the code: go test ./internal/pack -run FeatureTableInDocs -rewrite", path)
	}
	if err := os.WriteFile(path, []byte(head+begin+marker+"-->\n"+want+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// featureTable has a line for each property and each kind of its values, and one for what only rows name.
func featureTable(fields []field) string {
	var b strings.Builder
	b.WriteString("| property | since | values | here | code | note |\n|---|---|---|---|---|---|\n")
	line := func(path, since string, r featureRow) {
		code := ""
		if r.Code != "" {
			code = "`" + r.Code + "`"
		}
		b.WriteString("| `" + path + "` | " + since + " | " + r.When + " | " + string(r.Treatment) + " | " + code + " | " + r.Note + " |\n")
	}
	for _, f := range fields {
		for _, r := range rowsOf(f.path) {
			if strings.TrimSuffix(r.Path, "[]") != f.path {
				r.Note = ""
			}
			line(f.path, f.since, r)
		}
	}
	for _, r := range featureRows {
		if strings.HasSuffix(r.Path, ".*") || strings.HasSuffix(r.Path, ".x_pawl") {
			line(r.Path, "", r)
		}
	}
	return b.String()
}
