package condition

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func language(t testing.TB) *Language {
	l, err := Of([]string{"payload", "variables", "artifacts"}, []string{"tool", "model"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func vars(t testing.TB, payload string) map[string]any {
	var p map[string]any
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"payload": p, "variables": map[string]any{"limit": 100.0}, "artifacts": map[string]any{"note": "x"}, "tool": "refund", "model": "m"}
}

// TestHolds: what is true, false, and what nobody can say.
func TestHolds(t *testing.T) {
	t.Parallel()
	l := language(t)
	for _, c := range []struct{ text, payload, want string }{
		{`payload.amount > 100`, `{"amount":101}`, "true"},
		{`payload.amount > 100`, `{"amount":100.5}`, "true"},
		{`payload.amount > 100`, `{"amount":100}`, "false"},
		{`payload.amount == 100`, `{"amount":1e2}`, "true"},
		{`payload.amount > variables.limit`, `{"amount":101}`, "true"},
		{`payload.items.exists(i, i.sku.startsWith("X"))`, `{"items":[{"sku":"A"},{"sku":"XY"}]}`, "true"},
		{`has(payload.amount) && payload.amount > 5`, `{}`, "false"},
		{`payload.to.matches("@example[.]com$")`, `{"to":"a@example.com"}`, "true"},
		{`artifacts.note == "x" && tool == "refund"`, `{}`, "true"},
		{`payload.amount > 100`, `{}`, "no such key: amount"},
		{`payload.amount > 100`, `{"amount":"many"}`, "no such overload"},
		{`payload.amount / 0 > 1`, `{"amount":1}`, "no such overload"},
		{`payload.flag`, `{"flag":true}`, "true"},
		{`payload.flag`, `{"flag":"yes"}`, "want a bool"},
		{`payload.a.all(x, payload.a.all(y, payload.a.all(z, x + y + z >= 0.0)))`, `{"a":[` + strings.Repeat("1,", 199) + `1]}`, "cost limit exceeded"},
	} {
		p, err := l.Compile(c.text, Bool)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got, err := p.Holds(vars(t, c.payload))
		var own *Error
		switch {
		case err == nil && c.want == "true" && got, err == nil && c.want == "false" && !got:
		case errors.As(err, &own) && strings.Contains(own.Message, c.want):
		default:
			t.Errorf("%s of %s: %v, %v; want %s", c.text, c.payload, got, err, c.want)
		}
	}
}

// TestCompileRefuses: what is no expression is told with its place, before anything runs.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	l := language(t)
	for text, want := range map[string]string{
		``:                        "1 to 4096 bytes",
		`payload.amount >`:        "1:",
		`payload.amount > amount`: "undeclared reference",
		`now() > 1`:               "undeclared reference",
		`"a" + "b"`:               "it gives string, want bool",
		`1 + 1`:                   "it gives int, want bool",
		`payload.matches("(")`:    "",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200): "",
		strings.Repeat("true && ", 600) + "true":                     "1 to 4096 bytes",
	} {
		p, err := l.Compile(text, Bool)
		var own *Error
		if p != nil || !errors.As(err, &own) || own.Message == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// TestKeys: texts, as limits name what they count.
func TestKeys(t *testing.T) {
	t.Parallel()
	l := language(t)
	p, err := l.Compile(`tool + "/" + string(payload.tenant)`, Text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Text(vars(t, `{"tenant":"a"}`)); err != nil || got != "refund/a" {
		t.Fatal(got, err)
	}
	if _, err := p.Text(vars(t, `{"tenant":"`+strings.Repeat("x", 2000)+`"}`)); err == nil {
		t.Error("a key of 2000 bytes was taken")
	}
	if !p.Reads("payload") || !p.Reads("tool") || p.Reads("artifacts") || p.Reads("variables") {
		t.Error("what it reads is told wrong")
	}
	if _, err := l.Compile(`payload.tenant == "a"`, Text); err == nil {
		t.Error("a bool was taken for a text")
	}
}

// TestLongEvaluationsEnd: whatever the payload, an evaluation ends soon.
func TestLongEvaluationsEnd(t *testing.T) {
	t.Parallel()
	l := language(t)
	big := `{"a":[` + strings.Repeat(`"`+strings.Repeat("a", 1000)+`",`, 900) + `"b"],"re":"(a{1000}){1000}","s":"` + strings.Repeat("a", 60_000) + `"}`
	values := vars(t, big)
	for _, text := range []string{
		`payload.a.all(x, payload.a.exists(y, x + y == "q") || true)`,
		`payload.s.matches(payload.re)`,
		`payload.a.map(x, payload.a.map(y, x + y)).size() > 0`,
		`payload.a.all(x, x.matches("(a*)*(a*)*b"))`,
		`payload.a.filter(x, payload.a.filter(y, payload.s.contains(x + y)).size() > 0).size() > 3`,
	} {
		p, err := l.Compile(text, Bool)
		if err != nil {
			continue
		}
		begun := time.Now()
		_, err = p.Holds(values)
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("%s took %s (%v)", text, d, err)
		} else {
			t.Log(text, d, err)
		}
	}
}

// FuzzCompile: no text and no payload panics.
func FuzzCompile(f *testing.F) {
	f.Add(`payload.amount > 100`, `{"amount":1}`)
	f.Add(`payload.a.all(x, x > 1)`, `{"a":[1,"2",null]}`)
	f.Add(`payload[variables.k]`, `{"a":{}}`)
	f.Add(`{"a": 1}[payload.k] == 1`, `{"k":"a"}`)
	l := language(f)
	f.Fuzz(func(t *testing.T, text, payload string) {
		var p map[string]any
		if json.Unmarshal([]byte(payload), &p) != nil {
			return
		}
		program, err := l.Compile(text, Bool)
		if err != nil {
			return
		}
		_, _ = program.Holds(map[string]any{"payload": p, "variables": map[string]any{}, "artifacts": map[string]any{}, "tool": "t", "model": ""})
	})
}
