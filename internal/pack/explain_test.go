package pack

import (
	"os"
	"strings"
	"testing"
)

// TestExplanations: explain.tsv is the table of docs/reference/diagnostics.md; -rewrite renews it.
func TestExplanations(t *testing.T) {
	t.Parallel()
	rows, _ := diagnosticsPage(t)
	var b strings.Builder
	for _, r := range rows {
		example := strings.ReplaceAll(strings.Join(r.shown, "; "), "\t", " ")
		fix, _, _ := strings.Cut(r.mend, " | ")
		b.WriteString(strings.Join([]string{r.code, r.severity, strings.TrimSpace(r.cause), strings.TrimSpace(fix), example}, "\t") + "\n")
	}
	if *rewrite {
		if err := os.WriteFile("explain.tsv", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != explainText {
		t.Error("explain.tsv is not the table of the page: go test ./internal/pack -run Explanations -rewrite")
	}
	for _, r := range Rules() {
		if e, ok := Explain(strings.ToLower(r.Code)); !ok || e.Rule != r.Text || e.Cause == "" || e.Fix == "" {
			t.Errorf("%s: %+v", r.Code, e)
		}
	}
	if _, ok := Explain("PP0000-0"); ok || len(Codes()) < len(Rules()) {
		t.Error("a code that nothing reports is explained, or some are missing")
	}
}
