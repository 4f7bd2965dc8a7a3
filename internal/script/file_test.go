package script

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const whole = `
variables: {name: x, n: 3, deep: {list: [1, two]}}
input: hello
entry: agent:a
turns:
  - state: plan
    steps:
      - {tool: t, payload: {a: 1}, status: error, result: broken}
      - {tool: t, key: k, result: {ok: true}}
    artifacts: {report: {passed: 1}, note: text}
    event: Done
    output: out
    usage: {input_tokens: 5, cost_usd: 0.5}
  - external: Approved
    artifacts: {note: y}
  - fail: boom
  - fail: {code: c, message: m, retryable: true}
  - input: more
  - after: 1h30m
  - cancel: enough
  - {repeat: 3}
`

func TestParseWholeFormat(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Turns) != 8 || f.Entry != "agent:a" || f.Input != "hello" || len(f.Variables) != 3 {
		t.Fatalf("%+v", f)
	}
	one := f.Turns[0]
	if one.State != "plan" || one.Steps[0].Status != "error" || one.Steps[1].Key != "k" || one.Usage.CostUSD != 0.5 {
		t.Errorf("%+v", one)
	}
	if f.Turns[1].External != "Approved" || f.Turns[5].After != 90*time.Minute || f.Turns[6].Cancel != "enough" {
		t.Errorf("%+v", f.Turns)
	}
	if *f.Turns[2].Fail != (Fail{Message: "boom"}) || *f.Turns[3].Fail != (Fail{"c", "m", true}) {
		t.Errorf("%+v %+v", f.Turns[2].Fail, f.Turns[3].Fail)
	}
}

func TestParseJSONAndNothing(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(`{"turns":[{"state":"a","event":"B","artifacts":{"x":[1,{"y":null}]}}]}`))
	if err != nil || f.Turns[0].Event != "B" {
		t.Fatalf("%+v, %v", f, err)
	}
	if f, err = Parse(nil); err != nil || len(f.Turns) != 0 {
		t.Fatalf("an empty file: %+v, %v", f, err)
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"turns: [{evnt: X}]":                           "evnt",
		"turns: {a: b}":                                "",
		"turns: [":                                     "",
		"turns: [{external: A, event: B}]":             "turns[0]: external and turn",
		"turns: [{}, {input: a, cancel: b}]":           "turns[1]: input and cancel exclude",
		"turns: [{fail: x, event: E}]":                 "a turn that fails",
		"turns: [{input: x, artifacts: {a: 1}}]":       "not by input",
		"turns: [{steps: [{payload: {}}]}]":            "steps[0].tool is required",
		"turns: [{steps: [{tool: t, status: maybe}]}]": "none of ok, error",
		"turns: [{after: -1s}]":                        "negative",
		"turns: [{fail: {cod: x}}]":                    "cod",
	} {
		_, err := Parse([]byte(text))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %q", text, err, says)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	if _, err := Load(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := Load(path); err != nil || len(f.Turns) != 8 {
		t.Errorf("%v %v", f, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"turns":[{"fail":[]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<12 {
			return
		}
		if file, err := Parse(raw); err == nil && len(file.faults()) > 0 {
			t.Error("a file with faults was taken")
		}
	})
}

// TestAliasBomb: a script whose aliases are a billion values is refused unread.
func TestAliasBomb(t *testing.T) {
	t.Parallel()
	text := "turns: [{output: &a0 x}"
	for i := range 9 {
		text += fmt.Sprintf(", {steps: [{tool: t, payload: &a%d [%s]}]}", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	if _, err := Parse([]byte(text + "]")); err == nil || !strings.Contains(err.Error(), "200000 values") {
		t.Errorf("got %v", err)
	}
}
