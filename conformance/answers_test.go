package main

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/conformance/endpoint"
)

// Each row of what is known to fail names a case that there is.
func TestKnownNamesCases(t *testing.T) {
	cases, err := endpoint.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, lang := range []string{"go", "python", "typescript"} {
		rows, err := readKnown("..", lang)
		if err != nil {
			t.Fatal(err)
		}
		if names := rows.strangers(cases); len(names) > 0 {
			t.Errorf("failing/%s.txt: no cases: %q", lang, names)
		}
	}
	if names := (known{"nothing": "x"}).strangers(cases); len(names) != 1 {
		t.Errorf("strangers: %q", names)
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
		if got := rows.judge(test.name, test.err); got.passed != test.passed || (got.err == nil) != test.passed {
			t.Errorf("%s, %v: %+v", test.name, test.err, got)
		}
	}
}
