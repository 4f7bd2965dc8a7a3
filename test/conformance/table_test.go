package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	t.Parallel()
	set := &settings{scenarios: []*scenario{{Name: "one"}, {Name: "two"}}}
	columns := []*column{
		{lang: language{name: "go"}, results: map[string]result{"one": {passed: true}, "two": {err: errors.New("step 1: no")}}},
		{lang: language{name: "python"}, mode: mode{serves: true, async: true}, results: map[string]result{"one": {passed: true}}, journal: errors.New("torn")},
	}
	var out strings.Builder
	if failed := printTable(&out, set, columns, 1500*time.Millisecond); failed != 2 {
		t.Errorf("%d failures, want 2", failed)
	}
	const want = `scenario         go worker  python run/async
one              ok         ok
two              FAIL       =
(journal check)  ok         FAIL
FAIL two in go worker: step 1: no
FAIL (journal check) in python run/async: torn
conformance: 2 scenarios and 0 answers in 2 columns: 3 passed, 2 failed, 1 do not apply, 1.5 s
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}
