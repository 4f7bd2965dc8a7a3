package main

import (
	"fmt"
	"strings"
	"sync"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// alikeRow names the row of what executors record differently of the same answers.
const alikeRow = "(answers alike)"

// recorded keeps what each executor recorded of each case, by case and language.
type recorded struct {
	mu      sync.Mutex
	results map[string]map[string][]string
}

// note adds what a language recorded of a case that it passed.
func (r *recorded) note(name, lang string, seen *caseOutcome) {
	var lines []string
	for _, step := range seen.models {
		lines = append(lines, peoplesPart(step.GetStep().GetModel().GetAnswer()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.results == nil {
		r.results = map[string]map[string][]string{}
	}
	if r.results[name] == nil {
		r.results[name] = map[string][]string{}
	}
	r.results[name][lang] = lines
}

// peoplesPart returns the texts of an answer in one line. They must be the same for every library that read the answer.
// Ids are left out, because each executor makes its own.
func peoplesPart(a *pawlv1.ModelAnswer) string {
	var out strings.Builder
	fmt.Fprintf(&out, "text %q, refusal %q, finish %q, model %q, response %q", textOf(a.GetParts()), a.GetRefusal(), a.GetFinishReason(), a.GetModel(), a.GetResponseId())
	for _, call := range a.GetCalls() {
		fmt.Fprintf(&out, ", call %s broken %q", wordOf(call.GetName(), call.GetArguments()), call.GetBrokenArguments())
	}
	return out.String()
}

// differences are those of the languages from the first that has a case, by language.
func (r *recorded) differences(cases []string, languages []string) map[string][]string {
	found := map[string][]string{}
	for _, name := range cases {
		first := ""
		for _, lang := range languages {
			lines, there := r.results[name][lang]
			switch {
			case !there:
			case first == "":
				first = lang
			default:
				if why := firstDifference(r.results[name][first], lines); why != "" {
					found[lang] = append(found[lang], fmt.Sprintf("%s: %s: %s", name, first, why))
				}
			}
		}
	}
	return found
}

// firstDifference says where two lists differ; "": nowhere.
func firstDifference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a) || i >= len(b):
			return fmt.Sprintf("%d answers, not %d", len(a), len(b))
		case a[i] != b[i]:
			return fmt.Sprintf("answer %d:\n  %s\nnot\n  %s", i+1, shortText(a[i]), shortText(b[i]))
		}
	}
	return ""
}
