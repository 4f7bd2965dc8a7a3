package main

import (
	"errors"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/conformance/endpoint"
)

// Each row of what is known to fail names a case that there is.
func TestKnownNamesCases(t *testing.T) {
	cases, err := endpoint.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, lang := range []string{"go", "python", "typescript"} {
		rows, err := readKnown("../..", lang)
		if err != nil {
			t.Fatal(err)
		}
		if names := rows.unknownCases(cases); len(names) > 0 {
			t.Errorf("failing/%s.txt: no cases: %q", lang, names)
		}
	}
	if names := (known{"nothing": "x"}).unknownCases(cases); len(names) != 1 {
		t.Errorf("unknownCases: %q", names)
	}
}

// A case that is known to fail and passes is a fault, and so is one that fails and is not known to.
func TestKnownJudges(t *testing.T) {
	rows := known{"listed": "why"}
	for _, test := range []struct {
		name   string
		err    error
		passed bool
	}{
		{"listed", errors.New("fails"), true},
		{"listed", nil, false},
		{"other", errors.New("fails"), false},
		{"other", nil, true},
	} {
		if got := rows.newResult(test.name, test.err); got.passed != test.passed || (got.err == nil) != test.passed {
			t.Errorf("%s, %v: %+v", test.name, test.err, got)
		}
	}
}

// TestDifferences checks that a difference between the records of two executors is reported for the
// later one, and that a case in which one of them failed is left out.
func TestDifferences(t *testing.T) {
	all := &recorded{}
	answer := func(text, id string) *caseOutcome {
		return &caseOutcome{models: []*pawlv1.GetModelStepResponse{{Step: &pawlv1.Step{Model: &pawlv1.ModelStep{Answer: &pawlv1.ModelAnswer{
			Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}},
			Calls: []*pawlv1.ModelCall{{Id: id, Name: "order", Arguments: `{"a": 1, "b": 2.50}`}},
		}}}}}}
	}
	all.note("same", "go", answer("x", "call_a"))
	all.note("same", "python", answer("x", "call_b"))
	all.note("other", "go", answer("x", "call_a"))
	all.note("other", "python", answer("y", "call_a"))
	all.note("alone", "python", answer("y", "call_a"))
	all.note("more", "go", answer("x", "call_a"))
	all.note("more", "python", &caseOutcome{})
	got := all.differences([]string{"same", "other", "alone", "more"}, []string{"go", "python"})
	if len(got["go"]) != 0 || len(got["python"]) != 2 {
		t.Errorf("%q", got)
	}
}
