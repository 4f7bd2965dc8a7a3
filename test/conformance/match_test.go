package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func parseJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got string
		// fault is part of what does not match; empty: it does.
		fault string
	}{
		{`{"a": 1}`, `{"a": 1, "b": 2}`, ""},
		{`{"a": 1}`, `{"b": 2}`, "a: want 1, got null"},
		{`{"a": null}`, `{"a": 0}`, "a: want null, got 0"},
		{`{"a": {"b": [1, {"c": "x"}]}}`, `{"a": {"b": [1, {"c": "y"}]}}`, `a.b[1].c: want "x", got "y"`},
		{`[1, 2]`, `[1, 2, 3]`, "want [1,2], got [1,2,3]"},
		{`[{}]`, `[{"a": 1}]`, ""},
		{`{}`, `[]`, "want {}, got []"},
		{`""`, `null`, `want "", got null`},
		{`{"$contains": "bc"}`, `"abcd"`, ""},
		{`{"$contains": "x"}`, `"abcd"`, "$contains"},
		{`{"$contains": {"a": 1}}`, `[{"a": 2}, {"a": 1, "b": 3}]`, ""},
		{`{"$contains": {"a": 1}}`, `[]`, "$contains"},
		{`{"$set": true}`, `"x"`, ""},
		{`{"$set": true}`, `""`, "$set"},
		{`{"$set": false}`, `null`, ""},
		{`{"$set": true}`, `0`, "$set"},
		{`{"$least": 3}`, `3`, ""},
		{`{"$least": 3}`, `2`, "$least"},
		{`{"$least": 3}`, `"4"`, "$least"},
		{`{"$length": 2}`, `"ab"`, ""},
		{`{"$length": 2}`, `[1]`, "$length"},
		{`{"$oneof": ["a", "b"]}`, `"b"`, ""},
		{`{"$oneof": ["a", "b"]}`, `"c"`, "$oneof"},
		{`{"$bytes": "AA=="}`, `{"$bytes": "AA=="}`, ""},
		{`{"$bytes": "AA=="}`, `{"$bytes": "AB=="}`, "$bytes"},
		{`{"$nonsense": 1}`, `1`, "$nonsense is no rule"},
	} {
		err := match("", parseJSON(t, c.want), parseJSON(t, c.got))
		switch {
		case c.fault == "" && err != nil:
			t.Errorf("%s does not match %s: %v", c.want, c.got, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s against %s: %v, want %q", c.want, c.got, err, c.fault)
		}
	}
}

// TestJudge: an error that is not expected fails a step, and so does the lack of
// one that is.
func TestJudge(t *testing.T) {
	t.Parallel()
	fault := map[string]any{"reason": "PAUSED", "code": "FAILED_PRECONDITION"}
	good, bad := reply{Result: map[string]any{"n": float64(1)}}, reply{Error: fault}
	for name, c := range map[string]struct {
		step   step
		reply  reply
		passes bool
	}{
		"nothing expected":  {step{}, good, true},
		"unexpected error":  {step{}, bad, false},
		"expected error":    {step{fault: map[string]any{"reason": "PAUSED"}}, bad, true},
		"another error":     {step{fault: map[string]any{"reason": "RUN_TERMINAL"}}, bad, false},
		"no error":          {step{fault: map[string]any{"reason": "PAUSED"}}, good, false},
		"error for a value": {step{expect: map[string]any{"n": float64(1)}}, bad, false},
		"value":             {step{expect: map[string]any{"n": float64(1)}}, good, true},
		"another value":     {step{expect: map[string]any{"n": float64(2)}}, good, false},
	} {
		if err := compareReply(c.step, c.reply); (err == nil) != c.passes {
			t.Errorf("%s: %v", name, err)
		}
	}
}
