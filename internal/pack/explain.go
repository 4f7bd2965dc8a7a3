package pack

import (
	_ "embed"
	"strings"
	"sync"
)

// explainText has one line for each code, of tab-separated fields: code, severity, cause, fix, example. It is
// the table of docs/reference/diagnostics.md.
//
//go:embed explain.tsv
var explainText string

// Explanation says what a diagnostic code means.
type Explanation struct {
	Code string `json:"code"`
	// Severity is "error", "warning", or both separated by a comma.
	Severity string `json:"severity"`
	// Rule is the requirement that a pack must satisfy. It is "" for the codes of the schema.
	Rule string `json:"rule,omitempty"`
	// Cause explains why a finding with this code is reported. Fix explains how to correct it. Both are
	// Markdown.
	Cause string `json:"cause"`
	Fix   string `json:"fix"`
	// Example is a change of a pack that causes the finding. It is "" if there is none.
	Example string `json:"example,omitempty"`
}

var explanations = sync.OnceValue(func() []Explanation {
	texts := map[string]string{}
	for _, r := range rules {
		texts[r.Code] = r.Text
	}
	var out []Explanation
	for line := range strings.Lines(explainText) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		out = append(out, Explanation{Code: f[0], Severity: f[1], Rule: texts[f[0]], Cause: f[2], Fix: f[3], Example: f[4]})
	}
	return out
})

// Explain returns the explanation of a code. The code may be in upper or lower case. Explain returns
// false if there is none.
func Explain(code string) (Explanation, bool) {
	for _, e := range explanations() {
		if strings.EqualFold(e.Code, code) {
			return e, true
		}
	}
	return Explanation{}, false
}

// Codes lists all codes in the order of the reference page.
func Codes() []string {
	var out []string
	for _, e := range explanations() {
		out = append(out, e.Code)
	}
	return out
}
